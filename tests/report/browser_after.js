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

// The histograms of fixture.c: four bars a step, by where they lie, and the window behind them.
function spectra(figure) {
    var svg = figure.querySelector('svg'), select = figure.querySelector('select');
    check('the histograms are drawn', svg && seen(svg), 'no picture');
    check('the sites are offered', select.options.length === 2, select.options.length);
    check('the failing site is shown first',
          select.value === 'layer.2/mlp.down/dgrad/dy', select.value);
    var rows = all('line.base', svg).length;
    check('some steps', rows >= 4 && rows <= 8, rows);
    var wanted = {below: ['2^-14 to 2^-13', '10 %', /below the least value/],
                  subnormal: ['2^-9 to 2^-8', '30 %', /subnormal/],
                  normal: ['2^-8 to 2^-7', '40 %', /normal: full/],
                  above: ['2^7 to 2^8', '20 %', /past the largest/]};
    Object.keys(wanted).forEach(function (kind) {
        var bars = all('.bar.' + kind, svg), want = wanted[kind];
        check('bars ' + kind, bars.length === rows, bars.length);
        if (!bars.length) return;
        point(bars[0], 'pointermove', 0.5, 0.5);
        check(kind + ' reads step and part', /^step 1\n/.test(tip()) &&
              tip().indexOf(want[0] + ': ' + want[1] + ' of the values') > 0 &&
              want[2].test(tip()) && tip().indexOf('window 2^-11 to 2^6.8, scale 2^2') > 0 &&
              tip().indexOf('38 % of all are zero') > 0, tip());
    });
    function left(element) { return +element.getAttribute('x'); }
    var a = left(svg.querySelector('.bar.below')), b = left(svg.querySelector('.bar.above'));
    function exponent(x) { return -14 + 21 * (x - a) / (b - a); }
    var band = svg.querySelector('.inner');
    var high = exponent(left(band) + +band.getAttribute('width'));
    check('the window begins at 2^-11', Math.abs(exponent(left(band)) + 11) < 0.1,
          exponent(left(band)));
    check('the window ends at 112', Math.abs(high - Math.log2(112)) < 0.1, high);
    var line = all('.edge', svg).map(function (e) { return exponent(+e.getAttribute('x1')); });
    check('its normal part begins at 2^-8',
          line.some(function (e) { return Math.abs(e + 8) < 0.1; }), line.join());
    all('.switch[aria-label=run] button', figure).forEach(function (button) {
        button.click();
        check('histograms of ' + button.dataset.choice,
              all('.bar', svg).length === 4 * all('line.base', svg).length, svg.innerHTML);
    });
    select.value = select.options[1].textContent;
    select.dispatchEvent(new Event('change'));
    check('a site without a format has bars and no window',
          all('.bar.aside', svg).length > 0 && !svg.querySelector('.inner'), svg.innerHTML);
    point(svg.querySelector('.bar'), 'pointermove', 0.5, 0.5);
    check('and reads', /^step \d+\n2\^9 to 2\^10: 100 %/.test(tip()), tip());
    point(svg, 'pointerleave', 0.5, 0.5);
    check('the histograms let go', tip() === '', tip());
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
    check('one figure of histograms', all('figure.spectra').length === 1,
          all('figure.spectra').length);
    all('figure.spectra').forEach(spectra);
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
