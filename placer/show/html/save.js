// Pictures and their legend as one file, SVG or PNG, as they are seen: what styles say is written into it.
function letSave(svgs, holder) {
  holder.querySelectorAll('[data-save]').forEach((button) => button.addEventListener('click', () => {
    const name = document.title.replace(/[^\w.-]+/g, '-').slice(0, 80), sheet = drawSheet(svgs, holder);
    const text = new XMLSerializer().serializeToString(sheet);
    if (button.dataset.save === 'svg') return offer(new Blob([text], { type: 'image/svg+xml' }), `${name}.svg`);
    const image = new Image(), canvas = document.createElement('canvas');
    image.addEventListener('load', () => {
      const scale = Math.min(2, 4000 / image.width);
      [canvas.width, canvas.height] = [scale * image.width, scale * image.height];
      canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => offer(blob, `${name}.png`));
    });
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  }));

  function offer(blob, name) {
    const link = make('a', { href: URL.createObjectURL(blob), download: name }, document.body);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
}

// Title, pictures beside each other, colour scales and legend below.
function drawSheet(svgs, holder) {
  const WIDTH = 1000, GAP = 12, LINE = 24; // of a picture, between things, of a line of text
  const root = getComputedStyle(document.body), ink = root.color, font = root.fontFamily;
  const sheet = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const total = svgs.length * WIDTH + (svgs.length + 1) * GAP;
  const ground = make('rect', { width: total, fill: getComputedStyle(holder.closest('section')).backgroundColor }, sheet);
  const write = (x, y, text, size = 15) => make('text', { x, y, fill: ink, 'font-family': font, 'font-size': size }, sheet, text);
  write(GAP, LINE, document.title, 18);
  let bottom = 0;
  svgs.forEach((svg, number) => {
    const x = GAP + number * (WIDTH + GAP), [, , w, h] = svg.getAttribute('viewBox').split(' ').map(Number);
    const title = svg.closest('.panel')?.querySelector('p').textContent ?? '';
    write(x, 2 * LINE, title.length > 130 ? `${title.slice(0, 128)}…` : title, 14);
    const copy = standAlone(svg), size = { x, y: 2.6 * LINE, width: WIDTH, height: WIDTH * h / w };
    for (const [key, value] of Object.entries(size)) copy.setAttribute(key, value);
    sheet.append(copy);
    bottom = Math.max(bottom, size.y + size.height);
  });
  let x = GAP, y = bottom + LINE;
  const place = (width) => { // the next free place in the lines below
    if (x + width > total && x > GAP) [x, y] = [GAP, y + LINE];
    x += width;
    return x - width;
  };
  holder.querySelectorAll('.ramp:not([hidden])').forEach((ramp, number) => {
    const left = place(430), id = `ramp${number}`, stops = make('linearGradient', { id }, sheet);
    const colours = getComputedStyle(ramp.querySelector('i')).backgroundImage.match(/rgba?\([^)]*\)/g);
    colours.forEach((colour, k) => make('stop', { offset: k / (colours.length - 1), 'stop-color': colour }, stops));
    make('rect', { x: left, y: y - 12, width: 110, height: 14, fill: `url(#${id})` }, sheet);
    write(left + 120, y, ramp.textContent.replace(/\s+/g, ' ').trim());
  });
  for (const item of holder.querySelectorAll('.legend li')) {
    const text = item.textContent.trim(), left = place(40 + 8.5 * text.length), style = getComputedStyle(item.querySelector('i'));
    make('rect', { x: left, y: y - 12, width: 14, height: 14, fill: style.backgroundColor, stroke: style.borderTopColor }, sheet);
    write(left + 20, y, text);
  }
  const height = y + GAP;
  ground.setAttribute('height', height);
  for (const [key, value] of Object.entries({ width: total, height, viewBox: `0 0 ${total} ${height}` })) sheet.setAttribute(key, value);
  return sheet;
}

// A copy that needs no style sheet: everything that differs from what SVG assumes becomes an attribute.
function standAlone(svg) {
  const ASSUMED = { fill: 'rgb(0, 0, 0)', stroke: 'none', opacity: '1', display: 'inline', 'paint-order': 'normal' };
  const OF_STROKES = ['stroke-width'], OF_TEXTS = ['font-family', 'font-size', 'text-anchor', 'dominant-baseline'];
  const copy = svg.cloneNode(true), copies = copy.querySelectorAll('*');
  svg.querySelectorAll('*').forEach((node, number) => {
    const target = copies[number], style = getComputedStyle(node);
    for (const { name } of [...target.attributes]) if (/^(style|class|role|tabindex|aria-.*|data-.*)$/.test(name)) target.removeAttribute(name);
    const names = Object.keys(ASSUMED).filter((name) => style.getPropertyValue(name) !== ASSUMED[name]);
    if (style.stroke !== 'none') names.push(...OF_STROKES);
    if (node.tagName === 'text') names.push(...OF_TEXTS);
    for (const name of names) target.setAttribute(name, style.getPropertyValue(name));
    if (node.style.transform) target.setAttribute('transform', style.transform);
  });
  for (const name of ['class', 'role', 'aria-label']) copy.removeAttribute(name);
  return copy;
}
