// The page is whole without its scripts, but for the heat map and the histograms of exponents
// (spectra.js): this one draws the map, and adds read-outs under the pointer and copy buttons.
(function () {
'use strict';

var svgSpace = 'http://www.w3.org/2000/svg';

function make(name, attributes, text) {
    var element = document.createElement(name);
    Object.keys(attributes || {}).forEach(function (key) {
        element.setAttribute(key, attributes[key]);
    });
    if (text !== undefined) element.textContent = text;
    return element;
}

function all(selector, within) {
    return Array.from((within || document).querySelectorAll(selector));
}

// --- the read-out --------------------------------------------------------------------------

var tip = make('div', {'class': 'tip'});
tip.hidden = true;
document.body.appendChild(tip);

function tipRow(text, colour) {
    var row = make('div');
    if (colour) {
        var mark = make('b', {}, '\u25cf ');
        mark.style.color = colour;
        row.appendChild(mark);
    }
    row.appendChild(document.createTextNode(text));
    tip.appendChild(row);
}

function placeTip(event) {
    tip.hidden = false;
    var x = event.pageX + 16;
    if (x + tip.offsetWidth > document.documentElement.clientWidth - 8)
        x = event.pageX - 16 - tip.offsetWidth;
    tip.style.left = Math.max(4, x) + 'px';
    tip.style.top = event.pageY + 16 + 'px';
}

// --- lines over steps ----------------------------------------------------------------------

function pointsOf(path) {
    if (!path.points)
        path.points = (path.dataset.p || '').split(' ').filter(Boolean).map(function (pair) {
            var colon = pair.indexOf(':');
            return [+pair.slice(0, colon), pair.slice(colon + 1)];
        });
    return path.points;
}

function nearest(points, step) {
    var low = 0, high = points.length - 1;
    while (high - low > 1) {
        var middle = (low + high) >> 1;
        if (points[middle][0] > step) high = middle;
        else low = middle;
    }
    return Math.abs(points[low][0] - step) > Math.abs(points[high][0] - step) ? points[high]
                                                                             : points[low];
}

function readLines(svg) {
    var lines = all('path[data-p]', svg);
    if (!lines.length) return;
    var frame = svg.dataset, left = +frame.left, width = +frame.width;
    var first = +frame.first, last = +frame.last;
    var guide = document.createElementNS(svgSpace, 'line');
    guide.setAttribute('class', 'guide');
    guide.setAttribute('y1', frame.top);
    guide.setAttribute('y2', +frame.top + +frame.height);
    guide.style.display = 'none';
    svg.appendChild(guide);

    function leave() {
        tip.hidden = true;
        guide.style.display = 'none';
    }

    function show(event) {
        var box = svg.getBoundingClientRect();
        var x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
        if (x < left - 8 || x > left + width + 8) return leave();
        var step = Math.round(first + (x - left) / width * (last - first));
        step = Math.max(first, Math.min(last, step));
        tip.textContent = '';
        tipRow('step ' + step);
        lines.forEach(function (line) {
            var p = pointsOf(line);
            if (p.length && step >= p[0][0] && step <= p[p.length - 1][0])
                tipRow(line.dataset.name + ' ' + nearest(p, step)[1],
                       getComputedStyle(line).stroke);
        });
        var at = left + (last > first ? (step - first) / (last - first) : 0.5) * width;
        guide.setAttribute('x1', at);
        guide.setAttribute('x2', at);
        guide.style.display = '';
        placeTip(event);
    }

    svg.addEventListener('pointerdown', show);
    svg.addEventListener('pointermove', show);
    svg.addEventListener('pointerleave', leave);
}

all('svg[data-first]').forEach(readLines);

// --- the heat map --------------------------------------------------------------------------
//
// A cell is two digits of base 87 (heat.c): no sample, not finite, 0, infinite, then 1e-12 to
// 1e12 on a log axis.

var digits = '';
for (var code = 33; code < 127; code++)
    if ('"&\'<>`\\'.indexOf(String.fromCharCode(code)) < 0) digits += String.fromCharCode(code);
var base = digits.length, values = base * base;

function decode(text, columns) {
    var cells = new Float64Array(columns);
    for (var i = 0; i < columns; i++) {
        var at = text.length > 2 ? 2 * i : 0;
        var n = digits.indexOf(text[at]) * base + digits.indexOf(text[at + 1]);
        cells[i] = n === 0 ? NaN : n === 1 ? -1 : n === 2 ? 0 : n === 3 ? Infinity
            : Math.pow(10, 24 * (n - 4) / (values - 5) - 12);
    }
    return cells;
}

// harm: 0 ... 1; ends: how its scale reads at both ends.
function logHarm(least, most) {
    return function (value) {
        if (value <= 0) return value < 0 ? 1 : 0;
        return 0.06 + 0.94 * Math.min(1, Math.max(0, Math.log10(value / least)
                                                      / Math.log10(most / least)));
    };
}
function percent(value) {
    return +(100 * value).toPrecision(2) + ' %';
}
function plain(value) {
    return value === Infinity ? 'far from full' : value >= 1e5 || value < 1e-3 && value > 0
        ? value.toExponential(1).replace('e+', 'e') : String(+value.toPrecision(2));
}
var statistics = {
    'headroom': {
        harm: function (v) {
            // Full (1) is where scales that follow the tensor aim; harm begins below.
            return v < 0 ? 1 : v >= 1 ? 0.45 * Math.max(0, 1 - Math.log2(v) / 6)
                                      : 0.6 + 0.4 * Math.min(1, -Math.log2(v) / 4);
        },
        say: plain, ends: ['64 or more', '1/16 or less'],
        about: 'how far the largest value is from the end of the format'
    },
    'saturated': {
        harm: logHarm(1e-6, 1), say: percent, ends: ['none', '100 %'],
        about: 'values past the largest finite one'
    },
    'flushed': {
        harm: logHarm(1e-6, 1), say: percent, ends: ['none', '100 %'],
        about: 'values that the cast made zero'
    },
    'zero': {
        harm: logHarm(1e-6, 1), say: percent, ends: ['none', '100 %'],
        about: 'values that were zero before'
    },
    'amax-error': {
        harm: logHarm(1e-3, 3), say: percent, ends: ['none', '300 %'],
        about: 'largest decoded value against the largest there was'
    },
    'deviation': {
        harm: logHarm(1e-3, 3), say: percent, ends: ['none', '300 %'],
        about: 'from the same weights and batch in bf16'
    }
};

function rgb(name) {
    var text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    if (text.length === 4) text = text.replace(/[^#]/g, '$&$&');
    return [1, 3, 5].map(function (at) { return parseInt(text.substr(at, 2), 16); });
}

function mix(a, b, part) {
    return a.map(function (v, i) { return Math.round(v + (b[i] - v) * part); });
}

function group(name, words, choose) {
    var box = make('div', {'class': 'switch', 'role': 'group', 'aria-label': name});
    words.forEach(function (word) {
        var button = make('button', {'type': 'button', 'data-choice': word},
                          word.replace('-', ' '));
        button.addEventListener('click', function () { choose(word); });
        box.appendChild(button);
    });
    return box;
}

function press(box, word) {
    all('button', box).forEach(function (button) {
        button.setAttribute('aria-pressed', button.dataset.choice === word);
    });
}

function heatMap(figure) {
    var maps = all('ol', figure).map(function (list) {
        return {
            run: list.dataset.run, single: 'single' in list.dataset,
            statistics: list.dataset.statistics.split(' '),
            steps: list.dataset.steps.split(' ').map(Number), rows: all('li', list)
        };
    });
    var runs = [], names = [];
    maps.forEach(function (map) {
        if (runs.indexOf(map.run) < 0) runs.push(map.run);
        map.statistics.forEach(function (s) { if (names.indexOf(s) < 0) names.push(s); });
    });
    var run = runs[0], statistic = names[0], map, cells, view, drag = null;
    var tools = make('div', {'class': 'tools'});
    var runSwitch = group('run', runs, function (word) { run = word; choose(); });
    var nameSwitch = group('statistic', names, function (word) { statistic = word; choose(); });
    var whole = make('button', {'type': 'button', 'class': 'whole'}, 'whole map');
    var about = make('p', {'class': 'about'});
    var canvas = make('canvas', {'role': 'img', 'aria-label': 'sites over steps'});
    var pen = canvas.getContext('2d');
    var layout = {};

    if (runs.length > 1) tools.appendChild(runSwitch);
    tools.appendChild(nameSwitch);
    tools.appendChild(whole);
    figure.insertBefore(about, figure.firstChild);
    figure.insertBefore(tools, figure.firstChild);
    about.insertAdjacentElement('afterend', canvas);
    whole.addEventListener('click', function () { reset(); draw(); });

    function has(wanted) {
        return maps.find(function (m) {
            return m.run === wanted && m.statistics.indexOf(statistic) >= 0;
        });
    }

    function choose() {
        if (!has(run)) run = runs.find(has);
        map = has(run);
        cells = map.rows.map(function (row) {
            return decode(row.getAttribute('data-' + statistic) || '!!', map.steps.length - 1);
        });
        press(runSwitch, run);
        press(nameSwitch, statistic);
        var kind = statistics[statistic];
        about.textContent = kind.about + ' ';
        about.appendChild(make('span', {'class': 'ends'}, kind.ends[0]));
        about.appendChild(make('span', {'class': 'ramp'}));
        about.appendChild(make('span', {'class': 'ends'}, kind.ends[1]));
        if (!view || view.rows !== cells.length || view.columns !== map.steps.length - 1) reset();
        draw();
    }

    function reset() {
        view = {top: 0, bottom: cells.length, left: 0, right: map.steps.length - 1,
                rows: cells.length, columns: map.steps.length - 1};
    }

    // The worst harm of the cells under a pixel: rows thinner than one are never averaged.
    function worst(fromRow, toRow, column) {
        var most = -1;
        for (var row = fromRow; row < toRow; row++) {
            var value = cells[row][column];
            if (!isNaN(value)) most = Math.max(most, statistics[statistic].harm(value));
        }
        return most;
    }

    function measure() {
        var width = canvas.clientWidth || figure.clientWidth, rows = view.bottom - view.top;
        var gutter = width > 640 ? 230 : 0;
        var height = Math.max(36, Math.min(rows * 17, Math.min(680, 240 + width * 0.5)));
        layout = {left: gutter, width: width - gutter, height: height, total: height + 26,
                  row: height / rows, column: (width - gutter) / (view.right - view.left)};
    }

    function label(text, most) {
        if (pen.measureText(text).width <= most) return text;
        var head = Math.floor(text.length / 3), tail = text.length - head;
        while (tail > 4 && pen.measureText(text.slice(0, head) + '\u2026' +
                                           text.slice(-tail)).width > most) {
            tail--;
            if (tail < head * 2) head = Math.max(4, head - 1);
        }
        return text.slice(0, head) + '\u2026' + text.slice(-tail);
    }

    function drawCells() {
        var ratio = canvas.width / (layout.left + layout.width);
        var high = Math.max(1, Math.round(layout.height * ratio)), ramp = [];
        var colours = ['--heat0', '--heat1', '--heat2'].map(rgb);
        for (var i = 0; i <= 64; i++)
            ramp.push('rgb(' + (i < 32 ? mix(colours[0], colours[1], i / 32)
                                       : mix(colours[1], colours[2], i / 32 - 1)) + ')');
        var rows = view.bottom - view.top, lines = Math.min(rows, high);
        for (var line = 0; line < lines; line++) {
            var from = view.top + Math.floor(line * rows / lines);
            var to = view.top + Math.max(Math.floor((line + 1) * rows / lines),
                                         Math.floor(line * rows / lines) + 1);
            var y0 = Math.round(line * high / lines), y1 = Math.round((line + 1) * high / lines);
            for (var c = view.left; c < view.right; c++) {
                var harm = worst(from, to, c);
                if (harm < 0) continue;
                var x0 = Math.round((layout.left + (c - view.left) * layout.column) * ratio);
                var x1 = Math.round((layout.left + (c + 1 - view.left) * layout.column) * ratio);
                pen.fillStyle = ramp[Math.round(harm * 64)];
                pen.fillRect(x0, y0, x1 - x0, y1 - y0 - (y1 - y0 > 6 ? 1 : 0));
            }
        }
    }

    function drawWords() {
        var style = getComputedStyle(document.documentElement);
        var ink = style.getPropertyValue('--ink'), soft = style.getPropertyValue('--soft');
        var every = Math.ceil(13 / layout.row), last = -99;
        pen.font = '11.5px ' + style.getPropertyValue('--mono');
        pen.textBaseline = 'middle';
        pen.textAlign = 'right';
        for (var row = view.top; row < view.bottom && layout.left > 0; row++) {
            var culprit = map.rows[row].className === 'culprit';
            var y = Math.max(6, (row - view.top + 0.5) * layout.row);
            if (!culprit && ((row - view.top) % every !== 0 || culpritNear(row, every))) continue;
            if (y - last < 11) continue;
            last = y;
            pen.font = (culprit ? 'bold ' : '') + '11.5px ' + style.getPropertyValue('--mono');
            pen.fillStyle = culprit ? style.getPropertyValue('--bad') : soft;
            pen.fillText(label(map.rows[row].textContent, layout.left - 14), layout.left - 8, y);
        }
        pen.font = '12px system-ui, sans-serif';
        pen.fillStyle = soft;
        pen.textBaseline = 'top';
        var ticks = Math.max(2, Math.floor(layout.width / 110)), columns = view.right - view.left;
        for (var i = 0; i < ticks; i++) {
            var column = view.left + Math.floor(i * columns / ticks);
            pen.textAlign = 'left';
            pen.fillText((i === 0 ? 'step ' : '') + map.steps[column],
                         layout.left + (column - view.left) * layout.column, layout.height + 8);
        }
        pen.textAlign = 'right';
        pen.fillStyle = ink;
        if (columns === map.steps.length - 1)
            pen.fillText(map.steps[columns], layout.left + layout.width, layout.height + 8);
    }

    function culpritNear(row, every) {
        for (var r = row - every + 1; r < row + every; r++)
            if (map.rows[r] && map.rows[r].className === 'culprit') return true;
        return false;
    }

    function draw() {
        measure();
        var ratio = Math.max(1, window.devicePixelRatio || 1);
        canvas.style.height = layout.total + 'px';
        canvas.width = Math.round((layout.left + layout.width) * ratio);
        canvas.height = Math.round(layout.total * ratio);
        drawCells();
        pen.save();
        pen.scale(ratio, ratio);
        drawWords();
        if (drag && drag.moved) {
            pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue('--ink');
            pen.strokeRect(drag.x, drag.y, drag.toX - drag.x, drag.toY - drag.y);
        }
        pen.restore();
        whole.hidden = view.bottom - view.top === view.rows
            && view.right - view.left === view.columns;
    }

    function place(event) {
        var box = canvas.getBoundingClientRect();
        var x = event.clientX - box.left, y = event.clientY - box.top;
        var column = view.left + Math.floor((x - layout.left) / layout.column);
        var row = view.top + Math.floor(y / layout.row);
        return {
            x: x, y: y, inside: x >= layout.left && y >= 0 && y < layout.height,
            column: Math.max(view.left, Math.min(view.right - 1, column)),
            row: Math.max(view.top, Math.min(view.bottom - 1, row))
        };
    }

    // Where rows are thinner than a pixel, the worst of those under the pointer.
    function rowAt(at) {
        var reach = Math.ceil(0.5 / layout.row), best = at.row, most = -1;
        for (var row = Math.max(view.top, at.row - reach + 1);
             row < Math.min(view.bottom, at.row + reach); row++) {
            var harm = worst(row, row + 1, at.column);
            if (harm > most || row === at.row && harm === most) { most = harm; best = row; }
        }
        return best;
    }

    function read(event) {
        var at = place(event);
        if (!at.inside) { tip.hidden = true; return; }
        var row = rowAt(at), value = cells[row][at.column];
        var next = at.column + 1 < map.steps.length - 1 ? map.steps[at.column + 1] - 1
                                                        : map.steps[at.column + 1];
        var first = map.steps[at.column];
        tip.textContent = '';
        tipRow(map.rows[row].textContent);
        tipRow('step ' + first + (next > first && !map.single ? ' to ' + next : ''));
        tipRow(statistic.replace('-', ' ') + ' ' + (isNaN(value) ? 'not sampled'
            : value < 0 ? 'not finite' : statistics[statistic].say(value)));
        placeTip(event);
    }

    function zoom() {
        var a = drag.from, b = drag.to;
        view.left = Math.min(a.column, b.column);
        view.right = Math.max(a.column, b.column) + 1;
        view.top = Math.min(a.row, b.row);
        view.bottom = Math.max(a.row, b.row) + 1;
    }

    canvas.addEventListener('pointerdown', function (event) {
        var at = place(event);
        read(event);
        if (!at.inside || event.pointerType === 'touch') return;
        drag = {from: at, to: at, x: at.x, y: at.y, toX: at.x, toY: at.y, moved: false};
        event.preventDefault();
    });
    canvas.addEventListener('pointermove', function (event) {
        read(event);
        if (!drag) return;
        var at = place(event);
        drag.to = at;
        drag.toX = Math.max(layout.left, at.x);
        drag.toY = Math.max(0, Math.min(layout.height, at.y));
        drag.moved = drag.moved || Math.abs(at.x - drag.x) + Math.abs(at.y - drag.y) > 6;
        draw();
    });
    addEventListener('pointerup', function () {
        if (drag && drag.moved) zoom();
        if (drag) { drag = null; draw(); }
    });
    canvas.addEventListener('dblclick', function (event) {
        var at = place(event), rows = view.bottom - view.top, columns = view.right - view.left;
        var high = Math.max(1, rows >> 1), wide = Math.max(1, columns >> 1);
        view.top = Math.max(view.top, Math.min(view.bottom - high, at.row - (high >> 1)));
        view.left = Math.max(view.left, Math.min(view.right - wide, at.column - (wide >> 1)));
        view.bottom = view.top + high;
        view.right = view.left + wide;
        draw();
    });
    canvas.addEventListener('pointerleave', function () { tip.hidden = true; });
    addEventListener('resize', draw);
    addEventListener('beforeprint', draw);
    addEventListener('afterprint', draw);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
    matchMedia('print').addEventListener('change', draw);
    choose();
}

all('figure.heat').forEach(heatMap);

// --- commands ------------------------------------------------------------------------------

if (navigator.clipboard)
    all('pre.paste').forEach(function (pre) {
        var words = pre.textContent, button = make('button', {'class': 'copy'}, 'copy');
        button.addEventListener('click', function () {
            navigator.clipboard.writeText(words).then(function () {
                button.textContent = 'copied';
            });
        });
        pre.insertBefore(button, pre.firstChild);
    });
addEventListener('beforeprint', function () {
    all('details').forEach(function (details) { details.open = true; });
});

// What spectra.js takes from here.
window.plumbPage = {
    all: all, decode: decode, group: group, make: make, percent: percent, placeTip: placeTip,
    press: press, svgSpace: svgSpace, tip: tip, tipRow: tipRow
};
})();
