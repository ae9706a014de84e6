"use strict";
// Search runs in a Web Worker. Browsers refuse to start one for a page that was opened from disk (file://), so there the
// worker's script runs in a hidden frame instead, behind the same two functions: postMessage, and the event "message".
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      // What the script posts goes to whoever listens to this worker.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = new URL(address, location.href).href;
      this.ready = new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = reject;
      });
      inside.document.body.append(script);
    }

    postMessage(data) { // in order, once the script has been loaded
      this.ready = this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
