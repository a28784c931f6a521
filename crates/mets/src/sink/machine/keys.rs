use layercast_core::{Span, Time};
use layercast_protect::{ExchangeKey, PROOF_RENEWAL, Random, SourceKey, open_grant};
use layercast_wire::{Opaque, Refusal, Signal, Upward};

use super::{Session, Sink};
use crate::SinkEvent;
use crate::identity::source_of;

/// How long a request for a key may go unanswered, and the least time between two.
const RETRY: Span = Span::from_secs(1);

/// What a sink holds for the keys of its flow.
#[derive(Debug)]
pub(super) struct SinkKeys {
    source: SourceKey,
    tokens: bool,
    exchange: ExchangeKey,
    /// When the next request may go out.
    next: Time,
    /// When the next proof is due.
    renewal: Time,
}

/// How a sink comes by the keys of a flow whose media are sealed.
impl Sink {
    /// The proof that goes with a join, if the flow takes a token and there is one. Those on the way keep it, so
    /// another is due later.
    pub(super) fn proof_to_join(&mut self, now: Time) -> Option<Opaque> {
        let proof = self.proof(now);
        if let Some(keys) = &mut self.keys {
            keys.renewal = now.saturating_add(Span::from_secs(PROOF_RENEWAL));
        }
        proof
    }

    /// A proof made now, if the flow takes a token and there is one.
    pub(super) fn proof(&mut self, now: Time) -> Option<Opaque> {
        let (protection, flow) = (self.config.protection.as_ref()?, self.flow.as_ref()?);
        if self.keys.is_none() {
            let source = source_of(flow)?;
            let secret = Random::new(&protection.random.0).draw();
            self.keys = Some(SinkKeys {
                source,
                tokens: flow
                    .identity
                    .as_ref()
                    .is_some_and(|identity| identity.tokens),
                exchange: ExchangeKey::new(secret),
                next: now,
                renewal: now,
            });
        }
        let keys = self.keys.as_ref().filter(|keys| keys.tokens)?;
        let token = protection.token.as_ref()?;
        let unix = protection.clock.at(now);
        let exchange = keys.exchange.public();
        let proof = token.prove(flow.id, (&self.config.node, self.config.id), exchange, unix);
        Some(proof.encode().into())
    }

    /// Asks the source for the key: after a join, while there is none, and when media come that no key
    /// opens.
    pub(super) fn ask_for_key(&mut self, now: Time, joined: bool) {
        let wanted = joined || self.wants_key();
        let Some(keys) = self
            .keys
            .as_mut()
            .filter(|keys| wanted && (joined || keys.next <= now))
        else {
            return;
        };
        if self.session != Session::Joined {
            return;
        }
        keys.next = now.saturating_add(RETRY);
        let request = match keys.tokens {
            // A member without a token learns from the source that one is needed.
            true => self.proof(now).unwrap_or_default(),
            false => keys.exchange.public().to_vec().into(),
        };
        if let Some(flow) = &self.flow {
            self.signals.push_back(Signal::ToSource {
                flow: flow.id,
                member: self.member(),
                body: Upward::KeyRequest { request },
            });
        }
    }

    /// Joins again with a new proof when the last one gets old: nodes on the way ask for the flow with it
    /// after they lost their neighbour upstream.
    pub(super) fn renew_proof(&mut self, now: Time) {
        if self.next_renewal().is_none_or(|at| at > now) {
            return;
        }
        self.ask_to_join(now, true);
    }

    /// When the next proof is due.
    pub(super) fn next_renewal(&self) -> Option<Time> {
        let has_token = self.config.protection.as_ref()?.token.is_some();
        let keys = self.keys.as_ref().filter(|keys| keys.tokens && has_token)?;
        (self.session == Session::Joined).then_some(keys.renewal)
    }

    fn wants_key(&self) -> bool {
        let active = self.active.as_ref();
        let opener = active.and_then(|active| active.receiver.opener.as_ref());
        opener.is_some_and(|opener| opener.wants_key || !opener.has_key())
    }

    /// When the key is asked for again.
    pub(super) fn next_request(&self) -> Option<Time> {
        let keys = self.keys.as_ref()?;
        (self.session == Session::Joined && self.wants_key()).then_some(keys.next)
    }

    /// The source has no key for this member: nothing more can be played, so the flow is given up.
    pub(super) fn on_denied(&mut self, refusal: Refusal) {
        let asks = self.keys.is_some() && self.session == Session::Joined;
        let Some(flow) = self.flow.as_ref().filter(|_| asks) else {
            self.stats.dropped.unknown += 1;
            return;
        };
        let (flow, member) = (flow.id, self.member());
        self.signals.push_back(Signal::Leave { flow, member });
        self.session = Session::Refused;
        self.drop_early();
        self.events.push_back(SinkEvent::Refused(refusal));
    }

    pub(super) fn on_grant(&mut self, grant: &[u8]) {
        let (Some(keys), Some(flow), Some(active)) = (&self.keys, &self.flow, &mut self.active)
        else {
            return;
        };
        let name = &self.config.node;
        match open_grant(grant, &keys.source, flow.id, name, &keys.exchange) {
            Ok(key) => {
                let opener = active.receiver.opener.as_mut();
                if opener.is_some_and(|opener| opener.add(&key)) {
                    let epoch = key.epoch();
                    self.events.push_back(SinkEvent::Key { epoch });
                }
            }
            Err(_) => self.stats.dropped.forged += 1,
        }
    }
}
