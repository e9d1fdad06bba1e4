// Draws the scene only while something moves in it, and no oftener than it can differ. The library
// draws sixty pictures a second in any case, which takes a whole core where a browser draws in
// software: the core that a training needs. Its loop goes on; while nothing moves, its drawing
// commands do nothing, and the canvas keeps the last picture.
"use strict";
(() => {
  const AFTER_INPUT = 1500; // milliseconds: the view glides on after the mouse is let go
  const AFTER_CHANGE = 700;
  const BETWEEN_CHANGES = 45; // what the studio moves by itself has a new place every 60
  const AT_LEAST_EVERY = 3000;
  let touchedUntil = 0; // by a person, who sees every picture
  let changedUntil = performance.now() + 5000; // textures and shaders come at first
  let drawing = true;
  let last = 0;
  const sizes = new WeakMap();

  let held = false; // the mouse was pressed on the scene; it may be dragged beyond it
  const touched = ({ type, target }) => {
    const onScene = target.tagName === "CANVAS";
    if (type === "pointerdown") held = onScene;
    const typing = type === "keydown" && !target.closest("input, textarea, [role=slider]");
    if (onScene || held || typing || type === "resize") {
      touchedUntil = performance.now() + AFTER_INPUT;
    }
    if (type === "pointerup") held = false;
  };
  const changed = () => {
    changedUntil = Math.max(changedUntil, performance.now() + AFTER_CHANGE);
  };
  for (const kind of ["pointerdown", "pointermove", "pointerup", "wheel", "keydown", "resize"]) {
    window.addEventListener(kind, touched, { capture: true, passive: true });
  }

  // What the server says to the scene; words and curves of the panel are drawn by other means.
  const ofPanel = (message) => /^Gui(?!3D)|Notification|^FileTransfer/.test(message.type);
  const Theirs = window.Worker;
  window.Worker = class extends Theirs {
    constructor(...values) {
      super(...values);
      this.addEventListener("message", ({ data }) => {
        const messages = (data && data.messages) || [];
        if (!messages.every(ofPanel)) changed();
      });
    }
  };

  // Once for every picture, before the library's loop: draw this one?
  const decide = (now) => {
    const pause = now < touchedUntil ? 0 : now < changedUntil ? BETWEEN_CHANGES : AT_LEAST_EVERY;
    drawing = now - last >= pause;
    if (drawing) last = now;
    window.requestAnimationFrame(decide);
  };
  window.requestAnimationFrame(decide);

  // A canvas of another size is empty.
  const resized = (gl) => {
    const size = `${gl.drawingBufferWidth} ${gl.drawingBufferHeight}`;
    if (sizes.get(gl) === size) return false;
    sizes.set(gl, size);
    return true;
  };
  const commands = [
    "clear", "drawArrays", "drawElements", "drawArraysInstanced", "drawElementsInstanced",
    "drawRangeElements",
  ];
  for (const context of [window.WebGLRenderingContext, window.WebGL2RenderingContext]) {
    for (const name of commands) {
      const theirs = context && context.prototype[name];
      if (!theirs) continue;
      context.prototype[name] = function (...values) {
        if (resized(this)) {
          drawing = true;
          changed();
        }
        return drawing ? theirs.apply(this, values) : undefined;
      };
    }
  }
})();
