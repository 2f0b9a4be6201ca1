// Draws boxes and arrows and lets the reader look into them. All text goes in by textContent.
document.querySelectorAll('.boxes').forEach((holder, view) => {
  const data = JSON.parse(holder.querySelector('script').textContent);
  const svg = holder.querySelector('svg'), facts = holder.querySelector('.facts');
  const LEFT = 46, BELOW = 34, MARGIN = 8; // room for ticks
  const CHARACTER = 0.62; // width of a character, in sizes of the font
  const [width, height] = data.size;
  let pinned = null; // box that a click keeps
  let told; // box on the side; undefined: nothing yet

  svg.setAttribute('viewBox',
    [-LEFT, -MARGIN, width + LEFT + MARGIN, height + BELOW + MARGIN].join(' '));
  const head = make('marker', {
    id: `arrow${view}`, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: 'auto',
  }, make('defs', {}, svg));
  make('path', { d: 'M0 0 8 4 0 8z', class: 'head' }, head);
  make('rect', { class: 'ground', width, height }, svg);
  if (data.background) {
    make('image', { href: data.background, width, height, preserveAspectRatio: 'none' }, svg);
  }
  for (const [x, text] of data.xTicks) {
    make('line', { class: 'tick', x1: x, x2: x, y1: 0, y2: height }, svg);
    make('text', { class: 'tick', x, y: height + 18 }, svg, text);
  }
  for (const [y, text] of data.yTicks) make('text', { class: 'tick', x: -LEFT / 2, y }, svg, text);

  // In layers, so that no bar covers a box and no arrow a label.
  const tails = data.boxes.map(({ at: [x, y], size: [, h], tail, colour }) => make('rect', {
    class: 'tail', x, y: y + h / 3, width: tail, height: h / 3, fill: colour || 'transparent',
  }, svg));
  const boxes = data.boxes.map((box, id) => {
    const [x, y] = box.at, [w, h] = box.size;
    const group = make('g', {
      class: 'box', role: 'button', tabindex: id ? -1 : 0, 'data-box': id,
      'aria-label': [box.name, ...Object.entries(box.facts).map((pair) => pair.join(' '))].join(', '),
    }, svg);
    make('rect', { class: 'body', x, y, width: w, height: h, fill: box.colour || 'transparent' }, group);
    return { group, x: x + w / 2, y: y + h / 2 };
  });
  const arrows = data.arrows.map(([, , x1, y1, x2, y2]) => make('line', {
    class: 'arrow', x1, y1, x2, y2, 'marker-end': `url(#arrow${view})`,
  }, svg));
  const labels = data.boxes.map((box, id) => writeLabel(box, boxes[id].x, boxes[id].y));
  letZoom([svg], holder);
  letSave([svg], holder);

  // Along the longer side, on a rim of the box's own colour; left out where it could not be read.
  function writeLabel({ label, ink, colour, size: [w, h] }, x, y) {
    const isUpright = h > 2 * w, [along, across] = isUpright ? [h, w] : [w, h];
    const size = Math.min(22, 0.8 * across, along / (CHARACTER * (label.length + 1)));
    const attributes = { class: 'label', x, y, fill: ink, stroke: colour || 'none', 'font-size': size };
    if (isUpright) attributes.transform = `rotate(-90 ${x} ${y})`;
    return make('text', attributes, svg, size < 5 ? '' : label);
  }

  // Told again only when it changed, so that a button in use is not replaced.
  function choose(id) {
    if (id !== told) tell(id);
    told = id;
    emphasise(id);
  }

  function tell(id) {
    facts.replaceChildren();
    if (id === null) {
      make('h3', {}, facts, 'Nothing chosen');
      make('p', {}, facts, 'Point at a box, or use Tab and the arrow keys.');
      return;
    }
    const box = data.boxes[id];
    make('h3', {}, facts, box.name);
    const list = make('dl', {}, facts);
    for (const [key, value] of Object.entries(box.facts)) {
      make('dt', {}, list, key);
      make('dd', {}, list, value);
    }
    listEnds('From', data.arrows.filter(([, target]) => target === id).map(([source]) => source));
    listEnds('To', data.arrows.filter(([source]) => source === id).map(([, target]) => target));
  }

  function listEnds(title, ids) {
    if (!ids.length) return;
    make('h3', {}, facts, `${title} (${ids.length})`);
    const list = make('ul', {}, facts);
    for (const id of ids) {
      const button = make('button', { type: 'button', 'data-end': id }, make('li', {}, list), data.boxes[id].name);
      button.addEventListener('click', () => pin(id));
      button.addEventListener('pointerenter', () => emphasise(id));
      button.addEventListener('focus', () => emphasise(id));
    }
  }

  function emphasise(id) {
    const near = new Set([id]);
    data.arrows.forEach(([source, target], number) => {
      const isOn = source === id || target === id;
      if (isOn) near.add(source).add(target);
      arrows[number].setAttribute('class', `arrow${isOn ? ' on' : id === null ? '' : ' dim'}`);
    });
    const isPale = id !== null && near.size > 1;
    boxes.forEach(({ group }, other) => {
      for (const part of [group, tails[other], labels[other]]) {
        part.classList.toggle('dim', isPale && !near.has(other));
      }
      group.classList.toggle('on', other === id);
    });
  }

  function pin(id) {
    pinned = id;
    choose(id);
  }

  const target = (event) => {
    const box = event.target.closest('[data-box]');
    return box ? Number(box.dataset.box) : null;
  };
  letLook(svg, facts, boxes, {
    target, itemOf: (id) => id, choose, goBack: () => choose(pinned), pin, isHidden: () => false,
  });
  choose(null);
});
