// Looks at the page as a reader would, and says in a <pre> what it found.
(function () {
var found = [];
function check(name, holds, seen) {
    found.push((holds ? 'ok ' : 'not ok ') + name + (holds ? '' : ': ' + seen));
}
function all(selector, within) {
    return Array.from((within || document).querySelectorAll(selector));
}
function point(element, kind, x, y) {
    var box = element.getBoundingClientRect();
    element.dispatchEvent(new PointerEvent(kind, {
        bubbles: true, cancelable: true, pointerType: 'mouse',
        clientX: box.left + x * box.width, clientY: box.top + y * box.height
    }));
}
function tip() {
    var element = document.querySelector('.tip');
    return element && !element.hidden ? element.innerText : '';
}
function seen(element) { return element.getBoundingClientRect().width > 0; }

// Every picture that is shown has a size and something in it; its read-out says a step.
function pictures() {
    var drawn = all('svg').filter(seen);
    check('pictures', drawn.length > 0, drawn.length);
    drawn.forEach(function (svg) {
        var name = svg.querySelector('title').textContent;
        check(name + ' has a size', svg.getBoundingClientRect().height > 40,
              svg.getBoundingClientRect().height);
        check(name + ' is drawn', all('path, rect', svg).length > 0, 'nothing in it');
        if (!svg.querySelector('path[data-p]')) return;
        point(svg, 'pointermove', 0.4, 0.5);
        check(name + ' reads a step and a value', /step \d+\n.*[a-z] -?[\d.]+/.test(tip()), tip());
        point(svg, 'pointerleave', 0.4, 0.5);
        check(name + ' lets go', tip() === '', tip());
    });
}

// Of the cells alone: right of the names and above the steps.
function colours(canvas) {
    var left = Math.floor(canvas.width * 0.4);
    var high = Math.floor(canvas.height * (1 - 28 / canvas.clientHeight));
    var data = canvas.getContext('2d').getImageData(left, 0, canvas.width - left, high).data;
    var kinds = new Set();
    for (var i = 0; i < data.length; i += 4)
        if (data[i + 3]) kinds.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
    return kinds.size;
}

function heat(figure) {
    var canvas = figure.querySelector('canvas'), readings = new Set();
    check('the heat map has a canvas', !!canvas, 'none');
    if (!canvas) return;
    var whole = figure.querySelector('.whole');
    check('the whole map is shown', whole.hidden, 'zoomed');
    all('.switch[aria-label=statistic] button', figure).forEach(function (button) {
        button.click();
        check(button.dataset.choice + ' is pressed',
              button.getAttribute('aria-pressed') === 'true', button.outerHTML);
        check(button.dataset.choice + ' is drawn', colours(canvas) > 1, colours(canvas));
        point(canvas, 'pointermove', 0.6, 0.3);
        var said = tip().split('\n');
        check(button.dataset.choice + ' reads site, step, value', said.length === 3 &&
              all('li', figure).some(function (li) { return li.textContent === said[0]; }) &&
              /^step \d+( to \d+)?$/.test(said[1]) &&
              said[2].indexOf(button.dataset.choice.replace('-', ' ') + ' ') === 0, tip());
        readings.add(said[2]);
    });
    check('the readings differ', readings.size > 1, Array.from(readings).join());
    all('.switch[aria-label=run] button', figure).forEach(function (button) {
        button.click();
        check('run ' + button.dataset.choice,
              button.getAttribute('aria-pressed') === 'true', button.outerHTML);
    });
    point(canvas, 'pointerdown', 0.5, 0.2);
    point(canvas, 'pointermove', 0.8, 0.6);
    point(canvas, 'pointerup', 0.8, 0.6);
    check('a drag zooms', !whole.hidden, 'the whole map');
    whole.click();
    check('the whole map comes back', whole.hidden, 'zoomed');
    canvas.dispatchEvent(new MouseEvent('dblclick', {
        bubbles: true, clientX: canvas.getBoundingClientRect().left + canvas.clientWidth * 0.6,
        clientY: canvas.getBoundingClientRect().top + 20
    }));
    check('a double click zooms', !whole.hidden, 'the whole map');
    whole.click();
    point(canvas, 'pointerleave', 0.5, 0.5);
    check('the map lets go', tip() === '', tip());
}

function page() {
    check('the verdict is the first thing', !!document.querySelector('main > header:first-child h1'),
          document.querySelector('main').innerHTML.slice(0, 80));
    check('nothing is wider than the page',
          document.documentElement.scrollWidth <= innerWidth, document.documentElement.scrollWidth);
    pictures();
    var maps = all('figure.heat');
    check('one heat map', maps.length === 1, maps.length);
    maps.forEach(heat);
    check('a table of runs', all('tbody tr').length > 0, 'no rows');
    check('nothing foreign ran', !window.hostile, window.hostile);
}

addEventListener('load', function () {
    try { page(); } catch (error) { wrong.push('exception: ' + error.stack); }
    check('nothing went wrong', wrong.length === 0, wrong.join('; '));
    var pre = document.createElement('pre');
    pre.id = 'found';
    pre.textContent = '\n' + found.join('\n') + '\ndone\n';
    document.body.appendChild(pre);
});
})();
