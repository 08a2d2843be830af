// Draws the histograms of exponents with the window of the format behind them: a picture for each run
// and site that the page holds (page_spectra.c), one at a time.
(function (page) {
'use strict';

var all = page.all, decode = page.decode, group = page.group, make = page.make;
var percent = page.percent, placeTip = page.placeTip, press = page.press;
var svgSpace = page.svgSpace, tip = page.tip, tipRow = page.tipRow;

function shape(svg, name, attributes, text) {
    var element = document.createElementNS(svgSpace, name);
    Object.keys(attributes).forEach(function (key) {
        element.setAttribute(key, attributes[key]);
    });
    if (text !== undefined) element.textContent = text;
    svg.appendChild(element);
    return element;
}

// Histograms of a site (page_spectra.c): seven fields each.
function histograms(item) {
    var fields = item.dataset.rows.split(' '), window_ = item.dataset.window, list = [];
    var edges = window_ ? window_.split(' ').map(Number) : null;
    for (var i = 0; i + 6 < fields.length; i += 7) {
        var most = +fields[i + 3], least = +fields[i + 4];
        list.push({
            step: fields[i], first: +fields[i + 1], scale: most, zero: +fields[i + 5],
            parts: decode(fields[i + 6], +fields[i + 2]), blocks: least !== most,
            // What every block holds, and what some block does.
            low: edges && edges[0] - least, normal: edges && edges[1] - least,
            high: edges && edges[2] - most,
            outerLow: edges && edges[0] - most, outerHigh: edges && edges[2] - least
        });
    }
    return list;
}

var places = {
    'normal': 'normal: full precision', 'subnormal': 'subnormal: fewer bits',
    'below': 'below the least value', 'above': 'past the largest value',
    'aside': 'the format is not known'
};

// Of the values from 2^e to 2^(e+1), by the middle one.
function placeOf(row, e) {
    var x = e + 0.5;
    if (row.low === null) return 'aside';
    if (x > row.outerHigh) return 'above';
    if (x < row.outerLow - 1) return 'below';
    return x < row.normal ? 'subnormal' : 'normal';
}

function power(x) { return '2^' + +x.toFixed(1); }

function spectra(figure) {
    var lists = all('ol', figure), run = lists[0].dataset.run, site = null;
    var tools = make('div', {'class': 'tools'}), about = make('p', {'class': 'about'});
    var select = make('select', {'aria-label': 'site'});
    var svg = document.createElementNS(svgSpace, 'svg');
    var runSwitch = group('run', lists.map(function (l) { return l.dataset.run; }),
                          function (word) { run = word; fill(); });
    var frame, rows, printing = false;
    var high = 40, pitch = 54;

    if (lists.length > 1) tools.appendChild(runSwitch);
    tools.appendChild(select);
    [tools, about, svg].forEach(function (part) {
        figure.insertBefore(part, lists[0]);
    });
    svg.setAttribute('role', 'img');

    // Paper is as wide as a screen, whatever its width in pixels.
    function isPaper() { return printing || matchMedia('print').matches; }

    function items() {
        return all('li', lists.find(function (l) { return l.dataset.run === run; }));
    }

    function fill() {
        var list = items(), first = list.find(function (i) { return 'first' in i.dataset; });
        var ill = list.filter(function (i) { return i.className === 'culprit'; });
        var kept = list.find(function (i) { return i.textContent === site; });
        select.textContent = '';
        ill.concat(list.filter(function (i) { return ill.indexOf(i) < 0; }))
            .forEach(function (item) {
                select.appendChild(make('option', {}, item.textContent));
            });
        select.value = site = (kept || first || ill[0] || list[0]).textContent;
        press(runSwitch, run);
        draw();
    }

    function range(narrow) {
        var from = Infinity, to = -Infinity;
        rows.forEach(function (row) {
            from = Math.min(from, row.first);
            to = Math.max(to, row.first + row.parts.length);
        });
        var left = from, right = to;
        rows.forEach(function (row) {
            if (row.low === null) return;
            left = Math.min(left, Math.max(row.outerLow - 1, from - 8));
            right = Math.max(right, Math.min(row.outerHigh + 1, to + 8));
        });
        var all_ = isPaper() ? 920 : svg.clientWidth || figure.clientWidth;
        frame = {left: narrow ? 44 : 62, top: 40, from: left, to: right, width: 0};
        frame.width = Math.max(200, all_ - frame.left - (narrow ? 8 : 96));
        frame.all = frame.left + frame.width + (narrow ? 8 : 96);
    }

    function at(exponent) {
        var x = (exponent - frame.from) / (frame.to - frame.from);
        return frame.left + frame.width * Math.min(1, Math.max(0, x));
    }

    function band(row, kind, low, top, y) {
        if (at(top) > at(low))
            shape(svg, 'rect', {'class': kind, x: at(low), y: y, width: at(top) - at(low),
                                height: high});
    }

    function inside(exponent) { return exponent > frame.from && exponent < frame.to; }

    function edge(exponent, y) {
        if (inside(exponent))
            shape(svg, 'line', {'class': 'edge', x1: at(exponent), x2: at(exponent), y1: y,
                                y2: y + high});
    }

    function drawRow(row, y, narrow) {
        if (row.low !== null) {
            if (row.blocks) band(row, 'outer', row.outerLow, row.outerHigh, y);
            band(row, 'inner', row.low, row.high, y);
            [row.low, row.normal, row.high].forEach(function (e) { edge(e, y); });
        }
        shape(svg, 'text', {'class': 'tick', x: frame.left - 8, y: y + high - 4,
                            'text-anchor': 'end'}, row.step);
        for (var k = 0; k < row.parts.length; k++) {
            var height = high * Math.max(0, 1 + Math.log10(row.parts[k]) / 6);
            if (!(row.parts[k] > 0)) continue;
            height = Math.max(1, Math.min(high, height));
            shape(svg, 'rect', {
                'class': 'bar ' + placeOf(row, row.first + k), 'data-k': k,
                x: at(row.first + k) + 0.5, y: y + high - height,
                width: Math.max(1, at(row.first + k + 1) - at(row.first + k) - 1),
                height: height
            });
        }
        shape(svg, 'line', {'class': 'base', x1: frame.left, x2: frame.left + frame.width,
                            y1: y + high, y2: y + high});
        if (!narrow && row.zero > 0)
            shape(svg, 'text', {'class': 'tick', x: frame.left + frame.width + 8,
                                y: y + high - 4}, percent(row.zero) + ' zero');
    }

    // The edges of the first row by name, on two lines, as the first two are close together.
    function names(row, narrow) {
        if (row.low === null) return;
        [[row.low, 'smallest subnormal', 12], [row.normal, 'smallest normal', 28],
         [row.high, 'largest', 12]].forEach(function (name) {
            if (!inside(name[0])) return;
            var words = narrow ? name[1].replace('smallest ', '') : name[1];
            var right = at(name[0]) > frame.left + frame.width * 0.6;
            shape(svg, 'text', {'class': 'mark', x: at(name[0]) + (right ? 2 : -2), y: name[2],
                                'text-anchor': right ? 'end' : 'start'}, words);
            shape(svg, 'line', {'class': 'edge', x1: at(name[0]), x2: at(name[0]),
                                y1: name[2] + 3, y2: frame.top});
        });
    }

    function axis(y, narrow) {
        var span = frame.to - frame.from, step = 1;
        while (span / step > (narrow ? 6 : 14)) step *= step === 1 ? 2 : step === 2 ? 2.5 : 2;
        for (var e = Math.ceil(frame.from / step) * step; e <= frame.to; e += step)
            shape(svg, 'text', {'class': 'tick', x: at(e), y: y + 16, 'text-anchor': 'middle'},
                  String(e).replace('-', '\u2212'));
        shape(svg, 'text', {'class': 'unit', x: frame.left + frame.width, y: y + 34,
                            'text-anchor': 'end'}, 'exponent of 2, before the scale');
        shape(svg, 'text', {'class': 'unit', x: frame.left - 8, y: 28, 'text-anchor': 'end'},
              'step');
    }

    function say(item) {
        about.textContent = '';
        about.appendChild(make('code', {}, site));
        about.appendChild(document.createTextNode(
            (item.dataset.format ? ', ' + item.dataset.format : '') + ', ' + run + ' \u2003'));
        ['normal', 'subnormal', 'below', 'above'].forEach(function (kind) {
            var word = make('span'), mark = make('b', {}, '\u25a0 ');
            mark.style.color = 'var(' + {normal: '--good', subnormal: '--good', below: '--odd',
                                         above: '--bad'}[kind] + ')';
            if (kind === 'subnormal') mark.style.opacity = 0.5;
            word.appendChild(mark);
            word.appendChild(document.createTextNode(kind));
            about.appendChild(word);
        });
    }

    function draw() {
        var item = items().find(function (i) { return i.textContent === site; });
        var narrow = !isPaper() && figure.clientWidth < 600;
        rows = histograms(item);
        svg.textContent = '';
        range(narrow);
        var bottom = frame.top + pitch * rows.length - (pitch - high);
        svg.setAttribute('viewBox', '0 0 ' + frame.all + ' ' + (bottom + 40));
        shape(svg, 'title', {}, 'Exponents of the values of ' + site + ' over steps');
        say(item);
        rows.forEach(function (row, i) { drawRow(row, frame.top + pitch * i, narrow); });
        if (rows.length) names(rows[0], narrow);
        axis(bottom, narrow);
    }

    function leave() {
        tip.hidden = true;
        all('.pointed', svg).forEach(function (bar) { bar.classList.remove('pointed'); });
    }

    function read(event) {
        var box = svg.getBoundingClientRect(), wide = frame.all / box.width;
        var x = (event.clientX - box.left) * wide, y = (event.clientY - box.top) * wide;
        var i = Math.floor((y - frame.top) / pitch), row = rows[i];
        leave();
        if (!row || x < frame.left || x > frame.left + frame.width) return;
        var e = Math.floor(frame.from + (x - frame.left) / frame.width *
                                            (frame.to - frame.from));
        var part = row.parts[e - row.first] || 0;
        all('.bar', svg).forEach(function (bar) {
            if (+bar.dataset.k === e - row.first &&
                Math.abs(+bar.getAttribute('y') + +bar.getAttribute('height') -
                         frame.top - pitch * i - high) < 0.5)
                bar.classList.add('pointed');
        });
        tip.textContent = '';
        tipRow('step ' + row.step);
        tipRow('2^' + e + ' to 2^' + (e + 1) + ': ' +
               (part > 0 ? percent(part) : 'none') + ' of the values that are not zero');
        if (row.low !== null) tipRow(places[placeOf(row, e)]);
        if (row.low !== null)
            tipRow(row.blocks ? 'every block holds ' + power(row.low) + ' to ' + power(row.high)
                              : 'window ' + power(row.low) + ' to ' + power(row.high) +
                                    ', scale ' + power(row.scale));
        if (row.zero > 0) tipRow(percent(row.zero) + ' of all are zero');
        placeTip(event);
    }

    select.addEventListener('change', function () { site = select.value; draw(); });
    svg.addEventListener('pointerdown', read);
    svg.addEventListener('pointermove', read);
    svg.addEventListener('pointerleave', leave);
    addEventListener('resize', draw);
    addEventListener('beforeprint', function () { printing = true; draw(); });
    addEventListener('afterprint', function () { printing = false; draw(); });
    fill();
}

all('figure.spectra').forEach(function (figure) {
    if (figure.querySelector('ol')) spectra(figure);
});
})(window.plumbPage);
