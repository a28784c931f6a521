use bytes::Bytes;
use layercast_core::{Layer, PerLayer, Span, Time, earliest};

use super::Unit;
use crate::parity::{Gathered, enough};

/// What a request needs besides a round trip and the reorder window: the marker that shows the loss of the last datagram of a
/// frame, and the jitter of the path.
const REQUEST: Span = Span::from_ms(15);
/// Share of the blocks that may lack a content, for the number of parities that are sent ahead: of the base layer, and of others.
const RESIDUAL: (f64, f64) = (5e-4, 5e-3);
/// Most parities that are sent ahead: one for this number of contents of the base layer, or of others.
pub const SHARE: (u32, u32) = (2, 4);
/// A longer queue in front of the line has no room for parities of enhancement layers.
const ROOM: Span = Span::from_ms(20);

/// Contents that get parities before it is known whether they arrive, by layer: a request for them would come too late.
///
/// A block takes contents for half of the time that its first one has left; its parities have the other half.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    gathering: PerLayer<Option<Gathering>>,
}

/// A block that takes contents.
#[derive(Debug)]
pub(crate) struct Gathering {
    pub of: Gathered,
    /// Until when it takes them.
    pub close: Time,
    /// When its first content is of no use any more.
    pub deadline: Time,
}

/// What is known of the way to the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub rtt: Span,
    pub window: Span,
    /// The share of datagrams that is lost.
    pub loss: f64,
    /// Datagrams in a burst of losses.
    pub burst: Option<u32>,
    /// How long the datagrams that wait keep the line busy.
    pub backlog: Span,
}

impl Ahead {
    /// Takes a content that leaves at `sent`; gives the block that has no room for it.
    pub fn take(
        &mut self,
        sent: Time,
        deadline: Time,
        (counter, unit, nominal): (u64, Unit, Time),
        payload: Bytes,
    ) -> Option<Gathering> {
        let place = &mut self.gathering[unit.layer];
        let payload = match place {
            Some(gathering) => match gathering.of.add(counter, unit, nominal, payload) {
                Ok(()) => {
                    gathering.deadline = gathering.deadline.min(deadline);
                    return None;
                }
                Err(payload) => payload,
            },
            None => payload,
        };
        let half = deadline.since(sent).mul_div(1, 2);
        place.replace(Gathering {
            of: Gathered::new(counter, unit, nominal, payload),
            close: sent.saturating_add(half),
            deadline,
        })
    }

    /// The next block that takes no more contents at `now`.
    pub fn close(&mut self, now: Time) -> Option<Gathering> {
        Layer::ALL
            .into_iter()
            .find_map(|layer| self.gathering[layer].take_if(|gathering| gathering.close <= now))
    }

    /// When the next block takes no more contents.
    pub fn next_close(&self) -> Option<Time> {
        let closes = Layer::ALL.map(|layer| self.gathering[layer].as_ref().map(|it| it.close));
        closes.into_iter().fold(None, earliest)
    }
}

/// How many parities a block gets of which no loss is known.
pub(crate) fn parities(block: &Gathered, path: &Path) -> u32 {
    let contents = block.len() as u32;
    let (residual, most) = match block.layer() {
        Layer::Base => (RESIDUAL.0, contents.div_ceil(SHARE.0)),
        _ if path.backlog > ROOM => return 0,
        _ => (RESIDUAL.1, contents.div_ceil(SHARE.1)),
    };
    let one = enough(contents, path.loss, residual, most);
    // Independent losses are fewer than those of a burst.
    let bursts = path.burst.map_or(0, |burst| burst.saturating_mul(2));
    one.max(bursts).min(most)
}

impl Path {
    /// Whether a request for a datagram that leaves at `sent` comes too late for `deadline`.
    pub fn is_too_long(&self, sent: Time, deadline: Time) -> bool {
        let spans = [self.rtt, self.window, REQUEST];
        let again = spans.iter().fold(sent, |at, span| at.saturating_add(*span));
        again > deadline
    }
}

#[cfg(test)]
mod tests {
    use layercast_core::FlowId;

    use super::*;

    fn unit(layer: Layer) -> Unit {
        Unit {
            flow: FlowId(1),
            layer,
            stamp_us: None,
            octets: 1_000,
            last: false,
            repair: true,
            lasts: None,
        }
    }

    fn gathering(layer: Layer, contents: u64) -> Gathering {
        let mut ahead = Ahead::default();
        let start = Time::ZERO + Span::from_secs(1);
        for counter in 0..contents {
            let content = (counter, unit(layer), start);
            let full = ahead.take(start, start + Span::from_ms(80), content, Bytes::new());
            assert!(full.is_none());
        }
        assert!(ahead.close(start + Span::from_ms(39)).is_none());
        assert_eq!(ahead.next_close(), Some(start + Span::from_ms(40)));
        ahead.close(start + Span::from_ms(40)).unwrap()
    }

    const PATH: Path = Path {
        rtt: Span::from_ms(40),
        window: Span::from_ms(1),
        loss: 0.05,
        burst: None,
        backlog: Span::ZERO,
    };

    #[test]
    fn the_number_of_parities_follows_the_loss_and_has_a_limit() {
        let of = |layer, contents, path| parities(&gathering(layer, contents).of, &path);
        assert_eq!(of(Layer::Base, 60, PATH), 11);
        assert_eq!(of(Layer::Base, 8, PATH), 4);
        assert_eq!(of(Layer::E1, 8, PATH), 2);
        let worse = Path { loss: 0.3, ..PATH };
        assert_eq!(of(Layer::Base, 60, worse), 30);
        let bursts = Path {
            burst: Some(6),
            ..PATH
        };
        assert_eq!(of(Layer::Base, 60, bursts), 12);
        let busy = Path {
            backlog: Span::from_ms(21),
            ..PATH
        };
        assert_eq!(of(Layer::Base, 60, busy), 11);
        assert_eq!(of(Layer::E2, 60, busy), 0, "there is no room for them");
    }

    #[test]
    fn a_request_needs_a_round_trip_the_reorder_window_and_some_time() {
        let sent = Time::ZERO + Span::from_secs(1);
        assert!(PATH.is_too_long(sent, sent + Span::from_ms(55)));
        assert!(!PATH.is_too_long(sent, sent + Span::from_ms(56)));
    }
}
