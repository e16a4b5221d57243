// The worker's side: reads the snapshot it is given and answers questions about it, one after the other. Must not know the page.

import { analyze } from '../../analysis/report/report.js';
import type { Snapshot } from '../../snapshot/model.js';
import { parseSnapshot } from '../../snapshot/read-snapshot.js';
import type { Answer, Question } from './analyst.js';

/** Takes over a worker's messages. */
export function answerQuestions(): void {
  let open: { readonly name: string; readonly snapshot: Snapshot } | null = null;
  const answer = (question: Question): unknown => {
    if (question.kind === 'open') {
      open = { name: question.name, snapshot: parseSnapshot(question.bytes) };
      return null;
    }
    if (open === null) throw new Error('no snapshot is open');
    if (question.kind === 'report') return analyze(open.snapshot, { file: open.name });
    throw new Error('not yet');
  };
  self.onmessage = ({ data }: MessageEvent<Question>) => {
    let reply: Answer;
    try {
      reply = { id: data.id, value: answer(data) };
    } catch (error) {
      reply = { id: data.id, error: error instanceof Error ? error.message : String(error) };
    }
    self.postMessage(reply);
  };
}
