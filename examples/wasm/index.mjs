// What a page does with the cache of `src/lib.rs`, in Node.
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

// The folder that `wasm-bindgen --target nodejs` has written.
const { Tokens } = createRequire(import.meta.url)(process.argv[2]);

const tokens = new Tokens(100);
console.log("first:", tokens.get("billing", 50));
console.log("again:", tokens.get("billing", 50));
await sleep(100);
tokens.tick();
console.log("timed out:", tokens.timed_out());
console.log("after 100 ms:", tokens.get("billing", 50));
