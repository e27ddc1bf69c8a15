// The part of WebAssembly that is used here. TypeScript declares it only together with the browser's types.
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array)
  }
  class Instance {
    constructor(module: Module)
    readonly exports: unknown
  }
  interface Memory {
    readonly buffer: ArrayBuffer
  }
}
