// Whether frames of machine code are left out of flame graphs: as people choose, at first where there are others.

import { useMemo, useState } from 'preact/hooks';
import { scriptExtension } from '../../snapshot/call-site.js';
import type { DeviceHistory } from '../device-history.js';

export function useScriptsOnly({ snapshot }: DeviceHistory): readonly [boolean, () => void] {
  const hasScripts = useMemo(() => {
    const { stacks } = snapshot;
    for (let frame = 0; frame < stacks.frameCount; frame++)
      if (scriptExtension(stacks.frame(frame).filename) !== null) return true;
    return false;
  }, [snapshot]);
  const [chosen, setChosen] = useState<boolean | null>(null);
  const scriptsOnly = chosen ?? hasScripts;
  return [scriptsOnly, () => setChosen(!scriptsOnly)];
}
