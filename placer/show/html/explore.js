// Lets the reader look into placements: choose, filter by stage, find, colour, replay.
document.querySelectorAll('.fabric').forEach((holder) => {
  const data = JSON.parse(holder.querySelector('script').textContent);
  const [stage, colour, search, slider, play, facts, legend] = [
    '.stage', '.colour', '.search', '.controls .frame', '.play', '.facts', '.legend',
  ].map((selector) => holder.querySelector(selector));
  const svgs = [...holder.querySelectorAll('svg')];
  const panels = svgs.map((svg, number) => drawFabric(svg, data, data.panels[number]));
  const TIMES = { busy: '#8fbfe6', starved: '#f0b400', blocked: '#e58e73', 'port wait': '#b8bdc4' }; // as in page.css
  const NOT_SIMULATED = '#d5d8db';
  const MOST_FOUND = 40; // listed on the side
  const READABLE = 0.8; // pixels per unit of the drawing at which labels can be read
  const lastFrame = Number(slider.max), reduced = matchMedia('(prefers-reduced-motion: reduce)');
  let pinned = null; // what a click keeps: {kind: 'unit' | 'flow' | 'link' | 'found', id, panel}
  let timer = null;
  let told = ''; // what stands on the side
  let again = () => {}; // emphasises it once more
  const reveal = letZoom(svgs, holder);
  letSave(svgs, holder);

  // Stages and flows.

  const isOfStage = (id) => stage.value === '' || data.units[id].stage === Number(stage.value);
  const endsOf = (flow) => [data.flows[flow].source, ...data.flows[flow].targets];
  const every = data.flows.map((_, flow) => flow);
  const isFlowOfStage = (flow) => endsOf(flow).some(isOfStage);
  const flowsOf = (id) => every.filter((flow) => endsOf(flow).includes(id) && isFlowOfStage(flow));
  const flowsOver = (link, panel) => every.filter((flow) => panels[panel].frame.routes[flow].includes(link) && isFlowOfStage(flow));

  // What is chosen is told on the side and stands out in the pictures; the rest goes pale. It is told
  // again only when it changed, so that a button in use is not replaced.

  function choose(what) {
    const key = JSON.stringify([what, slider.value, stage.value]);
    if (key === told) return again();
    told = key;
    facts.replaceChildren();
    if (!what) {
      make('h3', {}, facts, 'Nothing chosen');
      make('p', {}, facts, 'Point at a unit or a link, or use Tab and the arrow keys.');
      return stress(null);
    }
    ({ unit: tellUnit, flow: tellFlow, link: tellLink, found: tellFound })[what.kind](what);
  }

  function tell(title, pairs, panel) {
    make('h3', {}, facts, panels.length > 1 ? `${title}, ${panel ? 'right' : 'left'}` : title);
    const list = make('dl', {}, facts);
    for (const [key, value] of pairs) {
      make('dt', {}, list, key);
      make('dd', {}, list, value);
    }
  }

  function tellUnit({ id, panel }) {
    const unit = data.units[id], { frame, units, placeName } = panels[panel], flows = flowsOf(id);
    const shares = frame.measured ? frame.measured.time[id] : []; // none without a simulation
    tell(`${unit.label}: ${unit.name}`, [
      ...Object.entries(unit.facts),
      ...Object.keys(TIMES).slice(0, shares.length).map((name, k) => [name, `${Math.round(100 * shares[k])}%`]),
      ['place', placeName(units[id].site)],
    ], panel);
    listButtons('Flows', flows.map((flow) => [flowText(flow, id), { kind: 'flow', id: flow, panel }]));
    stress([id], flows);
  }

  function flowText(flow, unit) {
    const { name, source, targets, tokens } = data.flows[flow];
    const way = unit === null ? '' : source === unit ? 'to ' : 'from ';
    const others = source === unit ? targets : [source];
    return `${way}${others.map((other) => data.units[other].label).join(', ')}: ${name}, ${tokens} vectors`;
  }

  const unitButton = (id, panel) => [`${data.units[id].label}: ${data.units[id].name}`, { kind: 'unit', id, panel }];

  function tellFlow({ id, panel }) {
    const flow = data.flows[id], { frame, load } = panels[panel], route = frame.routes[id];
    const busiest = route.reduce((a, b) => (load[b] > load[a] ? b : a));
    const told = (unit) => `${data.units[unit].label} (${data.units[unit].name})`;
    tell(`Flow ${flow.name}`, [
      ['from', told(flow.source)],
      ['to', flow.targets.map(told).join(', ')],
      ['vectors', `${flow.tokens.toLocaleString('en')} per sample`],
      ['links', `${route.filter((link) => link < data.numMesh).length} between switches`],
      ['busiest', `${data.linkNames[busiest]}: ${Math.round(100 * load[busiest])}%`],
    ], panel);
    listButtons('Ends', endsOf(id).map((end) => unitButton(end, panel)));
    stress(endsOf(id), [id]);
  }

  function tellLink({ id, panel }) {
    const { frame, load } = panels[panel], flows = flowsOver(id, panel);
    tell(`Link ${data.linkNames[id]}`, [
      [frame.measured ? 'utilisation' : 'expected load', `${Math.round(100 * load[id])}%`],
    ], panel);
    listButtons('Flows', flows.map((flow) => [flowText(flow, null), { kind: 'flow', id: flow, panel }]));
    stress([], flows, id);
  }

  function tellFound({ id: text }) {
    const found = unitsNamed(text);
    make('h3', {}, facts, `Found: ${text}`);
    listButtons('Units', found.slice(0, MOST_FOUND).map((id) => unitButton(id, 0)), found.length);
    stress(found);
  }

  function unitsNamed(text) {
    const wanted = text.trim().toLowerCase();
    return data.units.map((_, id) => id).filter((id) => {
      const { label, name, facts: { layer } } = data.units[id];
      return label.toLowerCase() === wanted || [name, layer].some((own) => own.toLowerCase().includes(wanted));
    });
  }

  function listButtons(title, entries, count = entries.length) {
    make('h3', {}, facts, `${title} (${count})${stage.value === '' ? '' : `, stage ${stage.value}`}`);
    const list = make('ul', {}, facts);
    for (const [text, what] of entries) {
      const button = make('button', { type: 'button', [`data-${what.kind}`]: what.id }, make('li', {}, list), text);
      const show = () => {
        list.querySelectorAll('.on').forEach((other) => other.classList.remove('on'));
        button.classList.add('on');
        if (what.kind === 'flow') emphasise(endsOf(what.id), [what.id]);
        else emphasise([what.id], flowsOf(what.id));
      };
      button.addEventListener('click', () => goTo(what));
      button.addEventListener('pointerenter', show);
      button.addEventListener('focus', show);
    }
  }

  function stress(unitIds, flowIds = [], link = -1) {
    again = () => emphasise(unitIds, flowIds, link);
    again();
  }

  // Within the stage that is asked for; what is chosen stays lit whatever its stage.
  function emphasise(unitIds, flowIds = [], link = -1) {
    const isAll = unitIds === null, chosen = new Set(isAll ? [] : unitIds);
    const near = isAll ? data.units.keys() : [...chosen, ...flowIds.flatMap(endsOf)];
    const lit = new Set([...chosen, ...[...near].filter(isOfStage)]);
    const isPale = !isAll || stage.value !== '';
    const litFlows = !isPale ? null : isAll ? every.filter(isFlowOfStage) : [];
    panels.forEach((panel) => panel.emphasise({ chosen, lit: isPale ? lit : null, on: flowIds, litFlows, link }));
  }

  function pin(what) {
    pinned = what;
    if (what?.kind !== 'found') search.value = '';
    choose(what);
  }

  function goTo(what) {
    pin(what);
    if (what.kind !== 'unit') return;
    const { x, y } = panels[what.panel].units[what.id];
    reveal(x, y, READABLE);
  }

  // Colours of units, and what they mean.

  const layers = [...new Set(data.units.map((unit) => unit.facts.layer))];
  const paints = {
    op: (id) => {
      const { colour, isHatched, label, facts: { op } } = data.units[id];
      return { colour, isHatched, name: `${label.replace(/\d+$/, '')} ${op}` };
    },
    layer: (id) => {
      const { layer } = data.units[id].facts; // by the golden angle: neighbours look different
      return { colour: `hsl(${(layers.indexOf(layer) * 137.5) % 360} 65% 76%)`, name: layer };
    },
    stall: (id, { measured }) => {
      if (!measured) return { colour: NOT_SIMULATED, name: 'not simulated' };
      const shares = measured.time[id], name = Object.keys(TIMES)[shares.indexOf(Math.max(...shares))];
      return { colour: TIMES[name], name };
    },
  };

  function repaint() {
    const paint = paints[colour.value], colours = new Map();
    const counts = panels.map((panel) => {
      const count = {};
      data.units.forEach((_, id) => {
        const { name, colour: own, isHatched } = paint(id, panel.frame);
        colours.set(name, { own, isHatched });
        count[name] = (count[name] || 0) + 1;
      });
      panel.paint(paint);
      return count;
    });
    legend.replaceChildren();
    const add = (text, look) => {
      const item = make('li', {}, legend);
      make('i', look, item);
      item.append(text);
    };
    const names = colour.value === 'layer' ? layers : [...colours.keys()].sort();
    for (const name of names) {
      const { own, isHatched } = colours.get(name), number = new Set(counts.map((count) => count[name] || 0));
      add(`${name} (${[...number].join(' / ')})`, { style: `background-color:${own}`, class: isHatched ? 'hatched' : '' });
    }
    add('empty site', { class: 'empty' });
    add('critical', { class: 'critical' });
  }

  // Mouse, keyboard, controls.

  panels.forEach((panel, number) => {
    const target = (event) => {
      const unit = event.target.closest('[data-unit]'), link = event.target.closest('[data-link]');
      if (unit) return { kind: 'unit', id: Number(unit.dataset.unit), panel: number };
      return link ? { kind: 'link', id: Number(link.dataset.link), panel: number } : null;
    };
    letLook(panel.svg, facts, panel.units, {
      target,
      itemOf: ({ kind, id }) => (kind === 'unit' ? id : null),
      choose,
      goBack: () => choose(pinned),
      pin,
      isHidden: (id) => !isOfStage(id),
    });
    panel.svg.parentElement.addEventListener('focusin', (event) => {
      const what = target(event);
      if (what && event.target.matches(':focus-visible')) reveal(panel.units[what.id].x, panel.units[what.id].y);
    });
  });

  function showFrame(number) {
    slider.value = number;
    panels.forEach((panel, k) => {
      panel.show(number);
      const { title, text } = panel.frame, [name, figures] = ['.frame-title', '.figures'].map((one) => holder.querySelectorAll(one)[k]);
      [name.textContent, figures.textContent] = [title, text];
    });
    const { title, measured } = panels[0].frame;
    slider.setAttribute('aria-valuetext', title);
    holder.querySelector('.ramp-title').textContent = measured ? 'Links: measured utilisation'
      : 'Links: expected load at the bound';
    repaint();
    choose(pinned);
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = 'Play';
    play.setAttribute('aria-pressed', 'false');
  }
  play.addEventListener('click', () => {
    if (timer !== null) return stop();
    if (Number(slider.value) === lastFrame) showFrame(0);
    play.textContent = 'Pause';
    play.setAttribute('aria-pressed', 'true');
    timer = setInterval(() => {
      if (Number(slider.value) === lastFrame) stop();
      else showFrame(Number(slider.value) + 1);
    }, reduced.matches ? 1500 : 700);
  });
  slider.addEventListener('input', () => { stop(); showFrame(Number(slider.value)); });
  colour.addEventListener('change', repaint);
  search.addEventListener('input', () => pin(search.value.trim() ? { kind: 'found', id: search.value } : null));
  search.addEventListener('keydown', (event) => {
    const [first] = event.key === 'Enter' && search.value.trim() ? unitsNamed(search.value) : [];
    if (first !== undefined) goTo({ kind: 'unit', id: first, panel: 0 });
  });
  stage.addEventListener('change', () => {
    panels.forEach(({ units }) => letTabReach(units, data.units.findIndex((_, id) => isOfStage(id))));
    choose(pinned);
  });
  panels.forEach(({ units }) => units.length && letTabReach(units, 0));
  showFrame(lastFrame);
});
