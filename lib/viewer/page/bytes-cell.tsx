// A cell of a table that holds bytes, with the exact number for programs.

import { formatSize } from '../../units.js';

export function BytesCell({ value }: { readonly value: number }) {
  return (
    <td class="number" data-bytes={value}>
      {formatSize(value)}
    </td>
  );
}
