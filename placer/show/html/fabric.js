// Draws a placement and lets the reader look into it. All text goes in by textContent: it is foreign.
(() => {
  const holder = document.getElementById('fabric-data');
  if (!holder) return; // a page without a fabric
  const data = JSON.parse(holder.textContent);
  const byId = (id) => document.getElementById(id);
  const [svg, stage, slider, play, facts] = ['picture', 'stage', 'frame', 'play', 'facts'].map(byId);
  const reduced = matchMedia('(prefers-reduced-motion: reduce)');
  const MEMORY = 1, PORT = 2; // kinds of sites
  const MAX_LABELS = 2; // of units on one site; more are counted
  const lastFrame = data.frames.length - 1;
  let frame = lastFrame;
  let load = []; // of each link in this frame, 0..1
  let pinned = null; // what a click keeps: {kind: 'unit' | 'flow' | 'link', id}
  let timer = null;
  let told = ''; // what stands on the side
  let again = () => {}; // emphasises it once more

  // What never moves: switches, sites, links.

  svg.setAttribute('viewBox', data.view.join(' '));
  const defs = make('defs', {}, svg);
  make('circle', { r: data.unitSize / 2 }, make('clipPath', { id: 'round' }, defs));
  const hatch = make('pattern', {
    id: 'hatch', width: 8, height: 8, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)',
  }, defs);
  make('rect', { width: 3, height: 8, fill: '#ffffff', 'fill-opacity': 0.6 }, hatch);
  const isCritical = (list, id) => (list.includes(id) ? ' critical' : '');

  const locals = data.siteLines.map(([x1, y1, x2, y2]) => make('line', {
    class: 'local', x1, y1, x2, y2,
  }, svg));
  const links = data.thin.map((_, id) => make('polygon', {
    class: 'link', 'data-link': id,
  }, svg));
  const size = (kind) => (kind === PORT ? data.portSize : [data.unitSize, data.unitSize]);
  function outline(site, className) {
    const [, , x, y] = data.siteLines[site], kind = data.siteKind[site];
    const [width, height] = size(kind);
    return kind === MEMORY ? make('circle', { class: className, cx: x, cy: y, r: width / 2 }, svg)
      : make('rect', { class: className, x: x - width / 2, y: y - height / 2, width, height }, svg);
  }
  data.siteKind.forEach((_, site) => outline(site, 'site'));
  for (const [x, y] of data.siteLines.slice(0, Math.max(...data.siteSwitch) + 1)) {
    make('circle', { class: 'switch', cx: x, cy: y, r: 6 }, svg);
  }

  // Units: a group each, moved by `showFrame`.

  const units = data.units.map((unit, id) => {
    const group = make('g', { class: 'unit', role: 'button', tabindex: -1, 'data-unit': id }, svg);
    const body = make('rect', { class: 'body', fill: unit.colour }, group);
    const stripes = unit.isHatched ? make('rect', { fill: 'url(#hatch)' }, group) : null;
    const label = make('text', {}, group, unit.label);
    return { group, body, stripes, label, x: 0, y: 0 };
  });
  const frames = data.siteKind.map((_, site) => outline(site, 'frame'));
  const counts = data.siteLines.map(([, , x, y]) => make('text', { x, y }, svg));

  function showFrame(number) {
    frame = number;
    const now = data.frames[frame], isLast = frame === lastFrame;
    const tenants = data.siteKind.map(() => []);
    now.sites.forEach((site, id) => tenants[site].push(id));
    tenants.forEach((ids, site) => {
      ids.forEach((id, k) => placeUnit(id, site, k, ids.length));
      counts[site].textContent = ids.length > MAX_LABELS ? `${ids.length}x` : '';
    });
    load = isLast ? data.measured.map((value) => value || 0) : expectedLoad(now.routes);
    links.forEach((polygon, link) => {
      const share = Math.min(1, load[link]), thick = data.thick[link];
      const points = data.thin[link].map((v, i) => (v + share * (thick[i] - v)).toFixed(1));
      polygon.setAttribute('points', points.join(' '));
      const colour = data.palette[Math.round(share * (data.palette.length - 1))];
      polygon.setAttribute('fill', load[link] > 0 ? colour : '#dddddd');
    });
    const marks = isLast ? data : { criticalSites: [], criticalLinks: [] };
    frames.forEach((f, s) => f.setAttribute('class', 'frame' + isCritical(marks.criticalSites, s)));
    byId('frame-title').textContent = now.title;
    slider.setAttribute('aria-valuetext', now.title);
    byId('ramp-title').textContent = isLast ? 'Links: measured utilisation'
      : 'Links: expected load at the bound';
    choose(pinned);
  }

  function placeUnit(id, site, k, count) {
    const unit = units[id], [, , x, y] = data.siteLines[site], kind = data.siteKind[site];
    const [width, height] = size(kind), own = width / count, left = -width / 2 + k * own;
    [unit.x, unit.y, unit.site] = [x + left + own / 2, y, site];
    unit.group.style.transform = `translate(${x}px, ${y}px)`;
    for (const rect of [unit.body, unit.stripes]) {
      if (!rect) continue;
      for (const [key, v] of Object.entries({ x: left, y: -height / 2, width: own, height })) {
        rect.setAttribute(key, v);
      }
      if (kind === MEMORY) rect.setAttribute('clip-path', 'url(#round)');
      else rect.removeAttribute('clip-path');
    }
    unit.label.setAttribute('x', left + own / 2);
    unit.label.setAttribute('display', count > MAX_LABELS ? 'none' : 'inline');
    unit.label.style.fontSize = count > 1 ? '12px' : '';
    const { name, facts: f } = data.units[id];
    unit.group.setAttribute('aria-label',
      `${data.units[id].label}, ${name}, ${f.op}, stage ${f.stage}, at ${placeName(site)}`);
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

  // What is chosen is told on the side and stands out in the picture; the rest goes pale.

  const flowsOf = (id) => data.flows.map((flow, number) => [flow, number])
    .filter(([flow]) => flow.source === id || flow.targets.includes(id)).map(([, number]) => number);
  const flowsOver = (link) => data.flows.map((_, number) => number)
    .filter((number) => data.frames[frame].routes[number].includes(link));

  // Told again only when it changed, so that a button in use is not replaced.
  function choose(what) {
    const key = JSON.stringify([what, frame]);
    if (key === told) return again();
    told = key;
    facts.replaceChildren();
    if (!what) {
      make('h3', {}, facts, 'Nothing chosen');
      make('p', {}, facts, 'Point at a unit or a link, or use Tab and the arrow keys.');
      return stress([], []);
    }
    if (what.kind === 'unit') tellUnit(what.id);
    else if (what.kind === 'flow') tellFlow(what.id);
    else tellLink(what.id);
  }

  function tell(title, pairs) {
    make('h3', {}, facts, title);
    const list = make('dl', {}, facts);
    for (const [key, value] of pairs) {
      make('dt', {}, list, key);
      make('dd', {}, list, value);
    }
  }

  function tellUnit(id) {
    const unit = data.units[id], flows = flowsOf(id);
    tell(`${unit.label}: ${unit.name}`,
      [...Object.entries(unit.facts), ['place', placeName(units[id].site)]]);
    listFlows('Flows', flows, id);
    stress([id], flows);
  }

  function tellFlow(number) {
    const flow = data.flows[number], route = data.frames[frame].routes[number];
    const mesh = route.filter((link) => link < data.numMesh);
    const busiest = route.reduce((a, b) => (load[b] > load[a] ? b : a));
    const names = flow.targets.map((id) => `${data.units[id].label} (${data.units[id].name})`);
    tell(`Flow ${flow.name}`, [
      ['from', `${data.units[flow.source].label} (${data.units[flow.source].name})`],
      ['to', names.join(', ')],
      ['vectors', `${flow.tokens.toLocaleString('en')} per sample`],
      ['links', `${mesh.length} between switches`],
      ['busiest', `${data.linkNames[busiest]}: ${Math.round(100 * load[busiest])}%`],
    ]);
    listFlows('Ends', [], null, [flow.source, ...flow.targets]);
    stress([flow.source, ...flow.targets], [number]);
  }

  function tellLink(link) {
    tell(`Link ${data.linkNames[link]}`, [
      [frame === lastFrame ? 'utilisation' : 'expected load', `${Math.round(100 * load[link])}%`],
    ]);
    const flows = flowsOver(link);
    listFlows('Flows', flows, null);
    stress([], flows, link);
  }

  function listFlows(title, flows, unit, ends = []) {
    make('h3', {}, facts, `${title} (${flows.length || ends.length})`);
    const list = make('ul', {}, facts);
    const add = (text, what) => {
      const button = make('button', { type: 'button', [`data-${what.kind}`]: what.id },
        make('li', {}, list), text);
      button.addEventListener('click', () => pin(what));
      const show = () => {
        list.querySelectorAll('.on').forEach((other) => other.classList.remove('on'));
        button.classList.add('on');
        if (what.kind === 'flow') {
          const flow = data.flows[what.id];
          emphasise([flow.source, ...flow.targets], [what.id]);
        } else emphasise([what.id], flowsOf(what.id));
      };
      button.addEventListener('pointerenter', show);
      button.addEventListener('focus', show);
    };
    for (const id of flows) {
      const way = unit === null ? '' : data.flows[id].source === unit ? 'to ' : 'from ';
      const others = data.flows[id].source === unit ? data.flows[id].targets : [data.flows[id].source];
      const names = others.map((other) => data.units[other].label).join(', ');
      add(`${way}${names}: ${data.flows[id].name}, ${data.flows[id].tokens} vectors`, { kind: 'flow', id });
    }
    for (const id of ends) add(`${data.units[id].label}: ${data.units[id].name}`, { kind: 'unit', id });
  }

  function stress(unitIds, flowIds, link = -1) {
    again = () => emphasise(unitIds, flowIds, link);
    again();
  }

  function emphasise(unitIds, flowIds, link = -1) {
    const wanted = stage.value === '' ? null : Number(stage.value);
    const routes = data.frames[frame].routes, on = new Set(link < 0 ? [] : [link]), ofStage = new Set();
    flowIds.forEach((flow) => routes[flow].forEach((l) => on.add(l)));
    data.flows.forEach((flow, id) => {
      if (wanted === null || data.units[flow.source].stage === wanted) {
        routes[id].forEach((l) => ofStage.add(l));
      }
    });
    const ends = new Set(flowIds.flatMap((id) => [data.flows[id].source, ...data.flows[id].targets]));
    const lit = new Set(); // sites with a unit that is not pale
    const isAny = unitIds.length + flowIds.length > 0 || link >= 0;
    units.forEach(({ group }, id) => {
      const isOut = wanted !== null && data.units[id].stage !== wanted;
      group.classList.toggle('dim', isAny ? !unitIds.includes(id) && !ends.has(id) : isOut);
      group.classList.toggle('on', unitIds.includes(id));
      if (!group.classList.contains('dim')) lit.add(units[id].site);
    });
    counts.forEach((text, site) => text.classList.toggle('dim', !lit.has(site)));
    const isPale = (l) => (isAny ? !on.has(l) : wanted !== null && !ofStage.has(l));
    const critical = frame === lastFrame ? data.criticalLinks : [];
    links.forEach((polygon, l) => polygon.setAttribute('class',
      'link' + isCritical(critical, l) + (on.has(l) ? ' on' : isPale(l) ? ' dim' : '')));
    locals.forEach((line, site) => {
      const both = [data.numMesh + site, data.numMesh + data.siteLines.length + site];
      const isCriticalHere = both.some((l) => critical.includes(l)) ? ' critical' : '';
      line.setAttribute('class', 'local' + isCriticalHere + (both.some((l) => on.has(l)) ? ' on' : ''));
    });
  }

  function pin(what) {
    pinned = what;
    choose(what);
  }

  // Mouse, keyboard, controls.

  const target = (event) => {
    const unit = event.target.closest('[data-unit]'), link = event.target.closest('[data-link]');
    if (unit) return { kind: 'unit', id: Number(unit.dataset.unit) };
    return link ? { kind: 'link', id: Number(link.dataset.link) } : null;
  };
  letLook(svg, facts, units, {
    target,
    itemOf: ({ kind, id }) => (kind === 'unit' ? id : null),
    choose,
    goBack: () => choose(pinned),
    pin,
    isHidden: (id) => stage.value !== '' && data.units[id].stage !== Number(stage.value),
  });

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = 'Play';
    play.setAttribute('aria-pressed', 'false');
  }
  function step() {
    if (frame === lastFrame) return stop();
    slider.value = frame + 1;
    showFrame(frame + 1);
  }
  play.addEventListener('click', () => {
    if (timer !== null) return stop();
    if (frame === lastFrame) { slider.value = 0; showFrame(0); }
    play.textContent = 'Pause';
    play.setAttribute('aria-pressed', 'true');
    timer = setInterval(step, reduced.matches ? 1500 : 700);
  });
  slider.addEventListener('input', () => { stop(); showFrame(Number(slider.value)); });
  stage.addEventListener('change', () => {
    const first = data.units.findIndex((u) => stage.value === '' || u.stage === Number(stage.value));
    letTabReach(units, first);
    choose(pinned);
  });
  if (units.length) units[0].group.setAttribute('tabindex', 0);
  showFrame(lastFrame);
})();
