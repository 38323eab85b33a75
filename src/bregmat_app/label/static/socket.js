// The web socket to the server: sends messages, dispatches those received as events, and reconnects after a break.

const POSITIONS = 1, CLUSTERS = 2;

export class Line extends EventTarget {
  constructor() { super(); this.wait = 300; this.open(); }

  open() {
    this.socket = new WebSocket(`ws://${location.host}${location.pathname}tab`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => { this.wait = 300; this.tell("open"); };
    this.socket.onclose = () => { this.tell("gone"); setTimeout(() => this.open(), this.wait); this.wait = Math.min(2 * this.wait, 5000); };
    this.socket.onmessage = ({ data }) => {
      if (typeof data === "string") { const said = JSON.parse(data); this.tell(said.type, said); return; }
      const [kind, version] = new Uint32Array(data, 0, 2);
      if (kind === POSITIONS) this.tell("positions", { version, positions: new Float32Array(data, 8) });
      if (kind === CLUSTERS) this.tell("clusters", { version, codes: new Uint32Array(data, 8) });
    };
  }

  tell(type, detail) { this.dispatchEvent(new CustomEvent(type, { detail })); }
  send(message) {
    if (this.socket.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(message));
    return true;
  }
}
