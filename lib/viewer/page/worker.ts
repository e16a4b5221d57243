// The worker's side: reads the snapshot it is given and answers questions about it, one after the other. Must not know the page.

import type { Report } from '../../analysis/report/format.js';
import { analyze } from '../../analysis/report/report.js';
import type { Snapshot } from '../../snapshot/model.js';
import { parseSnapshot } from '../../snapshot/read-snapshot.js';
import { WhatIfRecording } from '../what-if.js';
import type { Answer, Question } from './analyst.js';

/** Takes over a worker's messages. */
export function answerQuestions(): void {
  let open: Opened | null = null;
  const answer = (question: Question): unknown => {
    if (question.kind === 'open') {
      open = new Opened(question.name, parseSnapshot(question.bytes));
      return null;
    }
    if (open === null) throw new Error('no snapshot is open');
    if (question.kind === 'report') return open.report(question.advise);
    return open
      .recording(question.question.device)
      .answer(question.question, (...progress) => post({ id: question.id, progress }));
  };
  const post = (reply: Answer): void => self.postMessage(reply);
  self.onmessage = ({ data }: MessageEvent<Question>) => {
    let reply: Answer;
    try {
      reply = { id: data.id, value: answer(data) };
    } catch (error) {
      reply = { id: data.id, error: error instanceof Error ? error.message : String(error) };
    }
    post(reply);
  };
}

class Opened {
  readonly #name: string;
  readonly #snapshot: Snapshot;
  readonly #recordings = new Map<number, WhatIfRecording>();
  #first: Report | null = null;

  constructor(name: string, snapshot: Snapshot) {
    this.#name = name;
    this.#snapshot = snapshot;
  }

  report(advise: boolean): Report {
    // Where nothing failed there is nothing to advise: the one without is the whole report.
    if (advise && this.#first?.verdict.request === null) return this.#first;
    this.#first = analyze(this.#snapshot, { file: this.#name, advise });
    return this.#first;
  }

  recording(device: number): WhatIfRecording {
    const known = this.#recordings.get(device) ?? new WhatIfRecording(this.#snapshot, device);
    this.#recordings.set(device, known);
    return known;
  }
}
