// All that is known of the block that was clicked. Must not know where it was clicked.

import { formatSize } from '../../units.js';
import { blockFacts, sizeWords } from '../block-facts.js';
import { momentOf } from './keys.js';
import { searchFor } from './legend.js';
import { StackList } from './stack-list.js';
import type { ViewProps } from './view-props.js';

export function BlockDetails(props: ViewProps & { readonly row: number }) {
  const { history, row, update } = props;
  const facts = blockFacts(history, row, momentOf(props));
  const frames = history.snapshot.stacks.frames(history.lifetimes.blocks.stacks[row] as number);
  return (
    <section
      class="details"
      id="pinned"
      aria-label="The picked block"
      data-row={row}
      data-address={facts.address}
      data-size={facts.size}
    >
      <h2>{sizeWords(facts)}</h2>
      <dl>
        <dt>Address</dt>
        <dd>
          0x{facts.address.toString(16)}, {facts.size.toLocaleString('en')} bytes
          {facts.size > facts.requested && facts.requested > 0
            ? `, of which ${formatSize(facts.size - facts.requested)} rounding`
            : ''}
        </dd>
        <dt>Stream, pool</dt>
        <dd>
          {facts.stream}, {facts.pool}
        </dd>
        <dt>Allocated</dt>
        <dd>{facts.allocatedAt < 0 ? 'before the recording' : <Moment update={update} event={facts.allocatedAt} />}</dd>
        <dt>Freed</dt>
        <dd>
          {facts.freedAt === null ? 'not in this recording' : <Moment update={update} event={facts.freedAt} />}
          {facts.completedAt !== null && facts.freedAt !== null && facts.completedAt > facts.freedAt + 1 ? (
            <>
              , other streams done at <Moment update={update} event={facts.completedAt} />
            </>
          ) : null}
        </dd>
        <dt>Now</dt>
        <dd>
          {facts.state}
          {facts.state === 'allocated' || facts.state === 'pending' ? `, age ${facts.age}` : ''}
          {facts.life === null ? '' : `; lived ${facts.life}`}
        </dd>
      </dl>
      <StackList frames={frames} />
      {frames.length === 0 ? <p class="faint">No stack was recorded for it.</p> : null}
      <p>
        <button type="button" onClick={() => update({ view: 'segments', address: facts.address })}>
          Show in segments
        </button>{' '}
        {frames.length === 0 ? null : (
          <button type="button" onClick={() => update({ search: searchFor(facts.site) })}>
            All of this call site
          </button>
        )}{' '}
        <button type="button" onClick={() => update({ pinned: null })}>
          Close
        </button>
      </p>
    </section>
  );
}

function Moment({ update, event }: { readonly update: ViewProps['update']; readonly event: number }) {
  return (
    <button type="button" class="link" onClick={() => update({ cursor: event })}>
      event {event.toLocaleString('en')}
    </button>
  );
}
