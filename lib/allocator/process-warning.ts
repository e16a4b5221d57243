// A warning to whoever runs the process, where there is a Node process to tell it; elsewhere nothing. Must not know what it is about.

export interface ProcessWarning {
  /** The name that the warning is printed with. */
  readonly type: string;
  readonly code: string;
  readonly detail?: string;
}

interface Emitter {
  emitWarning?(message: string, options: ProcessWarning): void;
}

/** `process.emitWarning`. Never throws where there is none. */
export function warnProcess(message: string, warning: ProcessWarning): void {
  (globalThis as { process?: Emitter }).process?.emitWarning?.(message, warning);
}
