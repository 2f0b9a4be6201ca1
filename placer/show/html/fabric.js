// Draws one placement on a fabric; another one of the same netlist can take its place.
// All text goes in by textContent: it is foreign.
const MEMORY = 1, PORT = 2; // kinds of sites

function drawFabric(svg, data, frames) {
  // What never moves: switches, sites, links.
  svg.setAttribute('viewBox', data.view.join(' '));
  const defs = make('defs', {}, svg);
  make('circle', { r: data.unitSize / 2 }, make('clipPath', { id: 'round' }, defs));
  const hatch = make('pattern', {
    id: 'hatch', width: 8, height: 8, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)',
  }, defs);
  make('rect', { width: 3, height: 8, fill: '#ffffff', 'fill-opacity': 0.6 }, hatch);
  const locals = data.siteLines.map(([x1, y1, x2, y2]) => make('line', {
    class: 'local', x1, y1, x2, y2,
  }, svg));
  const links = data.thin.map((_, id) => make('polygon', { class: 'link', 'data-link': id }, svg));
  const sizeOf = (kind) => (kind === PORT ? data.portSize : [data.unitSize, data.unitSize]);
  function outline(site, className) {
    const [, , x, y] = data.siteLines[site], kind = data.siteKind[site];
    const [width, height] = sizeOf(kind);
    return kind === MEMORY ? make('circle', { class: className, cx: x, cy: y, r: width / 2 }, svg)
      : make('rect', { class: className, x: x - width / 2, y: y - height / 2, width, height }, svg);
  }
  data.siteKind.forEach((_, site) => outline(site, 'site'));
  for (const [x, y] of data.siteLines.slice(0, Math.max(...data.siteSwitch) + 1)) {
    make('circle', { class: 'switch', cx: x, cy: y, r: 6 }, svg);
  }

  // Units: a group each, moved by `show`.
  const units = data.units.map((unit, id) => {
    const group = make('g', { class: 'unit', role: 'button', tabindex: -1, 'data-unit': id }, svg);
    const body = make('rect', { class: 'body' }, group);
    const stripes = unit.isHatched ? make('rect', { fill: 'url(#hatch)' }, group) : null;
    const label = make('text', {}, group, unit.label);
    return { group, body, stripes, label, x: 0, y: 0, site: 0 };
  });
  const edges = data.siteKind.map((_, site) => outline(site, 'frame'));

  const panel = { svg, units, frame: null, load: [], placeName };

  // The figures of a frame are its own: without a simulation, links show the load to expect.
  panel.show = (number) => {
    const frame = frames[Math.min(number, frames.length - 1)];
    const tenants = data.siteKind.map(() => []);
    frame.sites.forEach((site, id) => tenants[site].push(id));
    tenants.forEach((ids, site) => ids.forEach((id, k) => placeUnit(id, site, k, ids.length)));
    panel.frame = frame;
    panel.load = frame.measured ? frame.measured.load.map((value) => value || 0) : expectedLoad(frame.routes);
    links.forEach((polygon, link) => {
      const share = Math.min(1, panel.load[link]), thick = data.thick[link];
      const points = data.thin[link].map((v, i) => (v + share * (thick[i] - v)).toFixed(1));
      polygon.setAttribute('points', points.join(' '));
      const [light, dark] = data.palette[Math.round(share * (data.palette.length - 1))];
      polygon.style.fill = panel.load[link] > 0 ? `light-dark(${light}, ${dark})` : 'var(--idle)';
    });
    const critical = frame.measured ? frame.measured.criticalSites : [];
    edges.forEach((edge, site) => edge.setAttribute('class', `frame${critical.includes(site) ? ' critical' : ''}`));
  };

  // Units that share a site lie one above the other, so that a whole line is there for each label.
  function placeUnit(id, site, k, count) {
    const unit = units[id], [, , x, y] = data.siteLines[site], kind = data.siteKind[site];
    const [width, height] = sizeOf(kind), own = height / count, top = -height / 2 + k * own, middle = top + own / 2;
    [unit.x, unit.y, unit.site] = [x, y + middle, site];
    unit.group.style.transform = `translate(${x}px, ${y}px)`;
    for (const rect of [unit.body, unit.stripes]) {
      if (!rect) continue;
      for (const [key, v] of Object.entries({ x: -width / 2, y: top, width, height: own })) rect.setAttribute(key, v);
      if (kind === MEMORY) rect.setAttribute('clip-path', 'url(#round)');
      else rect.removeAttribute('clip-path');
    }
    const rim = Math.abs(middle) + own / 4; // where a label is nearest to the edge of a circle
    const room = kind === MEMORY ? 2 * Math.sqrt((width / 2) ** 2 - rim ** 2) : width;
    const { label, name, facts } = data.units[id];
    unit.label.setAttribute('y', middle);
    unit.label.style.fontSize = `${Math.min(17, 0.88 * own, room / (0.64 * label.length))}px`;
    unit.group.setAttribute('aria-label', `${label}, ${name}, ${facts.op}, stage ${facts.stage}, at ${placeName(site)}`);
  }

  // Vectors per sample over each link, as a share of what it can carry in the bound.
  function expectedLoad(routes) {
    const sums = data.linkWidth.map(() => 0);
    routes.forEach((route, flow) => route.forEach((link) => { sums[link] += data.flows[flow].tokens; }));
    return sums.map((sum, link) => sum / (data.linkWidth[link] * data.bound));
  }

  function placeName(site) {
    const at = data.siteSwitch[site], where = `(${Math.floor(at / data.columns)}, ${at % data.columns})`;
    return data.siteKind[site] === PORT ? `the port at ${where}` : where;
  }

  panel.paint = (colourOf) => units.forEach(({ body, stripes }, id) => {
    const { colour, isHatched } = colourOf(id, panel.frame);
    body.style.fill = colour;
    stripes?.setAttribute('display', isHatched ? 'inline' : 'none');
  });

  // What is `lit` (units) or `on` (links of flows, or one link) stands out, the rest goes pale;
  // null: everything is lit.
  panel.emphasise = ({ chosen, lit, on, litFlows, link }) => {
    const { routes, measured } = panel.frame;
    const linksOf = (flows) => new Set(flows.flatMap((flow) => routes[flow]));
    const onLinks = linksOf(on).add(link), litLinks = litFlows === null ? null : linksOf(litFlows);
    units.forEach(({ group }, id) => {
      group.classList.toggle('dim', lit !== null && !lit.has(id));
      group.classList.toggle('on', chosen.has(id));
    });
    const critical = new Set(measured ? measured.criticalLinks : []);
    const classes = (ids) => (ids.some((id) => critical.has(id)) ? ' critical' : '')
      + (ids.some((id) => onLinks.has(id)) ? ' on' : litLinks && !ids.some((id) => litLinks.has(id)) ? ' dim' : '');
    links.forEach((polygon, id) => polygon.setAttribute('class', `link${classes([id])}`));
    locals.forEach((line, site) => {
      const both = [data.numMesh + site, data.numMesh + data.siteLines.length + site];
      line.setAttribute('class', `local${classes(both).replace(' dim', '')}`);
    });
  };
  return panel;
}
