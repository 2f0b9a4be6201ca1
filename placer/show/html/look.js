// What pictures share that a reader can look into: elements, mouse and keyboard.
'use strict';

function make(name, attributes, parent, text) {
  const isSvg = parent.namespaceURI === 'http://www.w3.org/2000/svg';
  const node = isSvg ? document.createElementNS(parent.namespaceURI, name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

// Light or dark: as the system says until the reader says otherwise.
{
  const root = document.documentElement, button = document.getElementById('theme');
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const isDark = () => root.classList.contains('dark') || (dark.matches && !root.classList.contains('light'));
  const name = () => { button.textContent = isDark() ? 'Light' : 'Dark'; };
  button.addEventListener('click', () => {
    root.className = isDark() ? 'light' : 'dark';
    name();
  });
  dark.addEventListener('change', name);
  button.hidden = false;
  name();
}

// Only this item can be reached by Tab; arrow keys lead to the others.
function letTabReach(items, id) {
  items.forEach(({ group }, other) => group.setAttribute('tabindex', other === id ? 0 : -1));
}

// Items have a group and a place (x, y). `target` gives what an event is about, or null, `itemOf`
// the number of its item, or null. What is chosen stays until `goBack`, what is pinned until Escape.
function letLook(svg, facts, items, { target, itemOf, choose, goBack, pin, isHidden }) {
  svg.addEventListener('pointerover', (event) => {
    const what = target(event);
    if (what === null) goBack();
    else choose(what);
  });
  svg.addEventListener('pointerleave', goBack);
  svg.addEventListener('click', (event) => pin(target(event)));
  // Not on the SVG itself: Chromium puts SVG elements that listen for focus into the tab order.
  const picture = svg.parentElement;
  picture.addEventListener('focusin', (event) => {
    const what = target(event);
    if (what === null) return;
    letTabReach(items, itemOf(what));
    choose(what);
  });
  picture.addEventListener('focusout', (event) => {
    if (!facts.contains(event.relatedTarget)) goBack();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') pin(null);
  });
  const STEPS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
  svg.addEventListener('keydown', (event) => {
    const what = target(event), id = what === null ? null : itemOf(what);
    if (id === null) return;
    if (event.key === 'Enter' || event.key === ' ') pin(what);
    else if (STEPS[event.key]) items[neighbour(id, STEPS[event.key])].group.focus();
    else return;
    event.preventDefault();
  });

  // The nearest item in a direction; what lies aside counts double.
  function neighbour(from, [dx, dy]) {
    let best = from, least = Infinity;
    items.forEach((item, id) => {
      if (isHidden(id)) return;
      const right = item.x - items[from].x, down = item.y - items[from].y;
      const ahead = right * dx + down * dy, aside = Math.abs(right * dy) + Math.abs(down * dx);
      if (ahead > 0.01 && ahead + 2 * aside < least) [best, least] = [id, ahead + 2 * aside];
    });
    return best;
  }
}
