import { describe, expect, it } from 'vitest';
import { optionNames, parseConfig } from '../../../lib/allocator/config-parser.js';
import { SETTING_MEANINGS } from '../../../lib/analysis/conf/setting-meanings.js';
import { checkSettings } from '../../../lib/analysis/conf/settings-check.js';
import { nearestOption, textFaults } from '../../../lib/analysis/conf/settings-text.js';
import {
  OPTION_VERSIONS,
  optionStatus,
  optionVersions,
  parseTorchVersion,
  settingsVariable,
  sinceWhen,
} from '../../../lib/analysis/conf/torch-versions.js';

describe('what is no settings string', () => {
  it.each([
    ['expandable_segments', 19],
    ['a:', 0],
    ['roundup_power2_divisions:[256:1', 31],
    [',,', 0],
    ['max_split_size_mb:20', 18],
    ['max_split_size_mb:', 18],
    ['expandable_segments:True,nonsense:1', 25],
    ['max_split_size_mb:128:', 21],
  ])('%s: points at character %i', (text, position) => {
    const check = checkSettings(text);
    expect(check).toMatchObject({ accepted: false, conf: null });
    expect(check.faults.map((fault) => fault.position)).toEqual([position]);
  });

  it.each([
    ['"expandable_segments:True"', 0, /quote/],
    ["'max_split_size_mb:128'", 0, /quote/],
    ['“max_split_size_mb:128”', 0, /quote/],
    ['set "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128"', 0, /shell/],
    ['export PYTORCH_ALLOC_CONF=expandable_segments:True', 0, /shell/],
    ['PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True', 0, /shell/],
    ['max_split_size_mb:\u00a0128', 18, /U\+00A0/],
    ['\u200bmax_split_size_mb:128', 0, /U\+200B/],
    ['max_split_size_mb:128,\tgarbage_collection_threshold:0.8', 22, /U\+0009/],
    ['max_split_size_mb：128', 17, /plain sign/],
    ['expandable_segments:true', 20, /True or False, with a capital/],
    ['expandable_segments: on', 21, /True or False, with a capital/],
    ['max_split_size_mb=128', 0, /separated by a colon/],
    ['max_split_size_mb:128;expandable_segments:True', 21, /commas/],
  ])('%s: says at %i what to change', (text, position, message) => {
    const { accepted, faults } = checkSettings(text);
    expect(accepted).toBe(false);
    expect(faults.find((fault) => fault.position === position)?.message).toMatch(message);
  });

  it('guesses what a misspelled option was meant to be', () => {
    expect(checkSettings('expandeable_segments:True').faults[0]?.message).toMatch(
      /did you mean expandable_segments\?$/,
    );
    expect(nearestOption('max-split-size-mb', optionNames('current'))).toBe('max_split_size_mb');
    expect(nearestOption('nonsense', optionNames('current'))).toBeNull();
  });

  it('is not found in what the parser accepts', () => {
    for (const text of [
      '',
      'expandable_segments:True,',
      ' max_split_size_mb : 128 ',
      'roundup_power2_divisions:[256:1,>:4]',
    ]) {
      expect(checkSettings(text)).toMatchObject({ accepted: true, faults: [] });
      expect(textFaults(text)).toEqual([]);
    }
  });
});

describe('what a settings string says', () => {
  it('lists the options with their places, values and meanings', () => {
    const { options, conf } = checkSettings('roundup_power2_divisions:[256:1,>:4], expandable_segments:True,');
    expect(options.map(({ key, value, position }) => ({ key, value, position }))).toEqual([
      { key: 'roundup_power2_divisions', value: '[256:1,>:4]', position: 0 },
      { key: 'expandable_segments', value: 'True', position: 38 },
    ]);
    expect(options.every(({ meaning }) => meaning.length > 20)).toBe(true);
    expect(parseConfig(conf)).toEqual(parseConfig('roundup_power2_divisions:[256:1,>:4],expandable_segments:True'));
  });

  it('has a meaning and versions for every option of ours', () => {
    for (const name of optionNames('current')) {
      expect(SETTING_MEANINGS[name], name).toMatch(/\.$/);
      expect(optionVersions(name), name).toBeDefined();
    }
  });

  it('of the split limit does away with what people believe of it', () => {
    expect(SETTING_MEANINGS.max_split_size_mb).toMatch(/does not limit how large an allocation may be/);
  });

  it.each([
    ['expandable_segments:True,max_split_size_mb:128', /grow without end/],
    ['garbage_collection_threshold:0.8', /nothing without a memory fraction/],
    ['garbage_collection_threshold:0.8,per_process_memory_fraction:1,expandable_segments:True', /not collected/],
    ['backend:cudaMallocAsync,max_split_size_mb:128', /ignores the other options/],
    ['roundup_power2_divisions:1', /1 is off/],
    ['max_non_split_rounding_mb:64', /without max_split_size_mb/],
    ['expandable_segments_page_size:4194304', /without expandable_segments:True/],
    ['max_split_size_mb:128,max_split_size_mb:64', /twice; the last one holds/],
    ['pinned_use_background_threads:True', /host allocator/],
  ])('%s: warns', (text, warning) => expect(checkSettings(text).warnings.join('\n')).toMatch(warning));

  it('warns of nothing where there is nothing', () => {
    for (const text of [
      '',
      'expandable_segments:True',
      'garbage_collection_threshold:0.8,per_process_memory_fraction:0.9',
    ]) {
      expect(checkSettings(text).warnings).toEqual([]);
    }
  });
});

describe('what a PyTorch release makes of it', () => {
  const status = (text: string, torch: string) => checkSettings(text, { torch }).torch?.accepted;

  it('refuses what came later, and says from when on', () => {
    const check = checkSettings('expandable_segments:True,max_split_size_mb:128', { torch: '2.0.1' });
    expect(check.accepted).toBe(false);
    expect(check.torch).toMatchObject({ version: '2.0', accepted: 'refused' });
    expect(check.torch?.options).toEqual([
      { key: 'expandable_segments', status: 'refused', reason: 'expandable_segments needs 2.1 or later' },
      { key: 'max_split_size_mb', status: 'accepted', reason: 'known to 2.0' },
    ]);
    expect(check.torch?.known).toEqual([
      'max_split_size_mb',
      'roundup_power2_divisions',
      'garbage_collection_threshold',
      'backend',
    ]);
  });

  it.each([
    ['max_split_size_mb:128', '1.10', 'accepted'],
    ['roundup_power2_divisions:4', '1.11', 'refused'],
    ['roundup_power2_divisions:4', '1.13', 'accepted'],
    ['roundup_power2_divisions:[256:1,>:4]', '1.13', 'refused'],
    ['roundup_power2_divisions:[256:1,>:4]', '2.0', 'accepted'],
    ['expandable_segments:True', '2.1.2+cu121', 'accepted'],
    ['release_lock_on_cudamalloc:True', '2.2', 'not verified'],
    ['release_lock_on_cudamalloc:True', '2.4', 'accepted'],
    ['large_segment_size_mb:12', '2.9', 'refused'],
    ['large_segment_size_mb:12', '2.12', 'not verified'],
    ['nonsense:1', '2.9', 'refused'],
    ['', '2.0', 'accepted'],
  ] as const)('%s in %s: %s', (text, torch, expected) => expect(status(text, torch)).toBe(expected));

  it('calls what was not verified so, and does not refuse it', () => {
    const check = checkSettings('large_segment_size_mb:12', { torch: '2.12' });
    expect(check.accepted).toBe(true);
    expect(check.torch?.options[0]?.reason).toMatch(/not verified for 2\.12/);
  });

  it('accepts of 2.4 what its dialect here accepts, which its source was compared with', () => {
    const version = parseTorchVersion('2.4')!;
    const accepted = OPTION_VERSIONS.filter((entry) => optionStatus(entry, version) === 'accepted');
    expect(accepted.map(({ option }) => option).sort()).toEqual(optionNames('2.4').sort());
  });

  it('knows options that came and went', () => {
    const bypass = optionVersions('roundup_bypass_threshold_mb')!;
    const at = (version: string) => optionStatus(bypass, parseTorchVersion(version)!);
    expect([at('1.12'), at('1.13'), at('2.0')]).toEqual(['refused', 'not verified', 'refused']);
    expect(sinceWhen(bypass)).toMatch(/between 1\.12 and 2\.0 only/);
  });

  it('names the variable that the release reads', () => {
    expect(settingsVariable(parseTorchVersion('2.8')).note).toMatch(/is not read/);
    expect(settingsVariable(parseTorchVersion('2.9')).note).toMatch(/PYTORCH_ALLOC_CONF/);
    expect(checkSettings('', { torch: '2.9' }).torch?.notes.join()).toMatch(/2\.9\.1 .*183387/);
  });

  it.each([['2.1'], ['v2.1.0'], ['2.1.0a0+git123'], [' 2.1 ']])('%s is 2.1', (text) => {
    expect(parseTorchVersion(text)).toEqual({ major: 2, minor: 1 });
  });

  it.each([['1.9'], ['2'], ['latest'], ['2.x'], ['']])('%s is no release with settings strings', (text) => {
    expect(parseTorchVersion(text)).toBeNull();
    expect(() => checkSettings('', { torch: text })).toThrow(expect.objectContaining({ code: 'ERR_CUDALLOC_CONFIG' }));
  });
});
