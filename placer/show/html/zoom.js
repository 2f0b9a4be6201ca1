// Which part of a picture is seen: by buttons, keys, Ctrl and wheel, dragging. Pictures beside each
// other show the same part. Returns `reveal`, which brings a point into view.
function letZoom(svgs, holder) {
  const MOST = 12; // times larger than the whole
  const DRAG = 4; // pixels before a click becomes a drag
  const whole = svgs[0].getAttribute('viewBox').split(' ').map(Number);
  let [x, y, width, height] = whole;

  function see(left, top, newWidth) {
    width = Math.min(whole[2], Math.max(whole[2] / MOST, newWidth));
    height = width * whole[3] / whole[2];
    x = Math.min(whole[0] + whole[2] - width, Math.max(whole[0], left));
    y = Math.min(whole[1] + whole[3] - height, Math.max(whole[1], top));
    for (const svg of svgs) {
      svg.setAttribute('viewBox', [x, y, width, height].map((v) => v.toFixed(2)).join(' '));
      svg.classList.toggle('zoomed', width < whole[2]);
    }
  }
  // About a point that stays where it is; 0 shows the whole.
  function zoom(factor, px = x + width / 2, py = y + height / 2) {
    if (!factor) return see(whole[0], whole[1], whole[2]);
    const used = Math.min(MOST * width / whole[2], Math.max(width / whole[2], factor));
    see(px - (px - x) / used, py - (py - y) / used, width / used);
  }

  holder.querySelectorAll('[data-zoom]').forEach((button) => {
    button.addEventListener('click', () => zoom(Number(button.dataset.zoom)));
  });
  for (const svg of svgs) {
    const place = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    svg.addEventListener('wheel', (event) => {
      if (!event.ctrlKey) return; // the page scrolls
      event.preventDefault();
      const at = place(event);
      zoom(Math.exp(-event.deltaY / 300), at.x, at.y);
    }, { passive: false });
    svg.addEventListener('keydown', (event) => {
      const factor = { '+': 1.5, '-': 1 / 1.5, 0: 0 }[event.key];
      if (factor === undefined || event.ctrlKey) return;
      event.preventDefault();
      zoom(factor);
    });
    let grip = null, isDragged = false;
    svg.addEventListener('pointerdown', (event) => {
      [grip, isDragged] = [event, false];
    });
    svg.addEventListener('pointermove', (event) => {
      if (grip === null || !event.buttons) return;
      const [right, down] = [event.clientX - grip.clientX, event.clientY - grip.clientY];
      if (!isDragged && Math.hypot(right, down) < DRAG) return;
      isDragged = true;
      svg.setPointerCapture(event.pointerId);
      const scale = svg.getScreenCTM().a;
      see(x - right / scale, y - down / scale, width);
      grip = event;
    });
    svg.addEventListener('click', (event) => {
      if (isDragged) event.stopImmediatePropagation();
      [grip, isDragged] = [null, false];
    }, true);
  }

  // Large enough to be read if it was not (`least`: pixels per unit of the drawing).
  return (px, py, least = 0) => {
    const scale = svgs[0].getScreenCTM().a;
    if (scale < least) zoom(least / scale);
    const margin = 0.1 * height;
    const isSeen = px > x + margin && px < x + width - margin && py > y + margin && py < y + height - margin;
    if (!isSeen) see(px - width / 2, py - height / 2, width);
  };
}
