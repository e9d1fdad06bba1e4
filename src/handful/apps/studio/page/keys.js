// Sends the keys that move the gripper to the studio. What is typed into a field stays there.
"use strict";
(() => {
  const moves = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown"];
  const send = (name, event) =>
    fetch(`./studio/key?name=${name}&shift=${+event.shiftKey}&alt=${+event.altKey}`, {
      headers: { "X-Handful-Studio": "1" },
    }).catch(() => {});
  // The mouse is held down over the scene: what is dragged is saved when it is let go, wherever.
  let held = false;
  const letGo = (event) => {
    if (held) send("release", event);
    held = false;
  };
  window.addEventListener("pointerdown", (event) => {
    held = event.target !== null && event.target.tagName === "CANVAS";
    if (held) send("grab", event);
  }, { capture: true });
  window.addEventListener("pointerup", letGo, { capture: true });
  window.addEventListener("pointercancel", letGo, { capture: true });
  window.addEventListener(
    "keydown",
    (event) => {
      const at = event.target;
      if (at && at.closest && at.closest("input, textarea, select, [role=slider]")) return;
      const control = event.ctrlKey || event.metaKey;
      let name = "";
      if (!control && moves.includes(event.key)) name = event.key;
      if (!control && !event.altKey && event.key.toLowerCase() === "s") name = "snap";
      if (control && event.key.toLowerCase() === "z") name = event.shiftKey ? "redo" : "undo";
      if (control && event.key.toLowerCase() === "y") name = "redo";
      if (!name) return;
      event.preventDefault();
      event.stopPropagation();
      send(name, event);
    },
    { capture: true },
  );
})();
