// Prints the commands that README.md shows under "Two commands", one a line, for CI to run as they stand there.

import { readFileSync } from 'node:fs';

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
const section = /^## Two commands\n([\s\S]*?)(?=^## )/m.exec(readme)?.[1];
if (section === undefined) throw new Error('README.md has no section "Two commands"');
for (const [, block] of section.matchAll(/^```sh\n([\s\S]*?)^```$/gm)) {
  for (const line of (block ?? '').split('\n')) {
    const command = line.replace(/\s+#.*$/, '').trim();
    if (command !== '') console.log(command);
  }
}
