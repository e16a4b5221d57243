// The bundled page is small, and nothing in it would be loaded from elsewhere. Knows its text, not what it does.

import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';

const path = join(import.meta.dirname, '..', '..', 'dist', 'viewer', 'page.html');
const html = readFileSync(path, 'utf8');
const PACKED = /<script type="application\/octet-stream" id="packed">([^<]*)<\/script>/;
const program = gunzipSync(Buffer.from(PACKED.exec(html)?.[1] ?? '', 'base64')).toString();
/** The page with its program as the browser unpacks it. */
const page = html.replace(PACKED, () => `<script>${program}</script>`);
const found = (pattern: RegExp): string[] => [...new Set([...page.matchAll(pattern)].map((match) => match[0]))].sort();

test('is under 400 KB', () => {
  const { size } = statSync(path);
  expect(size).toBeLessThan(400_000);
  expect(program.length).toBeGreaterThan(100_000);
});

test('the only addresses in it are the names of XML namespaces, which nobody asks for', () => {
  const addresses = found(/\b(?:https?|wss?|ftp):\/\/[^"'`\s<>)]*/g);
  expect(addresses).toContain('http://www.w3.org/2000/svg');
  const isNamespace =
    /^http:\/\/www\.w3\.org\/(?:\d{4}\/(?:svg|xhtml|xlink|xmlns\/)|1998\/Math\/MathML|XML\/1998\/namespace)$/;
  expect(addresses.filter((address) => !isNamespace.test(address))).toEqual([]);
  // Without a scheme: //host.example/...
  expect(found(/["'`(]\/\/[\w-]+\.[\w.-]+/g)).toEqual([]);
});

test('what it loads is in it: no file, no module, and from its own server only the snapshots', () => {
  expect(found(/\bsrc\s*=\s*["'][^"']*/g)).toEqual([]);
  expect(found(/<link[^>]*>/g)).toEqual(['<link rel="icon" href="data:,">']);
  expect(found(/url\([^)]*\)|@import[^;]*/g)).toEqual([]);
  expect(found(/\bimport\s*\(|\bimport\s*["'{*]/g)).toEqual([]);
  expect(found(/\bfetch\([^)]*\)/g)).toEqual([expect.stringMatching(/^fetch\(`snapshots\/\$\{\w+\}`\)$/)]);
  expect(
    found(/\b(?:XMLHttpRequest|WebSocket|EventSource|WebTransport|RTCPeerConnection|sendBeacon|importScripts)\b/g),
  ).toEqual([]);
});

test('forbids by its own policy what it does not do', () => {
  const policy = /<meta http-equiv="Content-Security-Policy" content="([^"]*)">/.exec(page)?.[1] ?? '';
  const rules = new Map(policy.split('; ').map((rule) => [rule.split(' ')[0], rule.split(' ').slice(1).join(' ')]));
  expect(Object.fromEntries(rules)).toEqual({
    'default-src': "'none'",
    'script-src': "'unsafe-inline' blob:",
    'worker-src': 'blob:',
    'style-src': "'unsafe-inline'",
    'img-src': 'data: blob:',
    'connect-src': "'none'",
    'form-action': "'none'",
    'base-uri': "'none'",
  });
  // It counts from where it stands: nothing that loads comes before it.
  expect(page.indexOf('Content-Security-Policy')).toBeLessThan(page.search(/<(?:script|style|link|img|title)\b/));
});
