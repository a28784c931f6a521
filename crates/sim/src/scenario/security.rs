//! Identities, keys and tokens of a scenario: they follow from its seed.

use layercast_core::{Level, Stream};
use layercast_mets::{SinkProtection, SourceProtection};
use layercast_protect::{Claims, Seed, Signer, Token, WallClock};
use rand_core::RngCore;

use super::Scenario;

/// The simulation starts when tokens begin to count, in 1970.
const CLOCK: WallClock = WallClock(0);

impl Scenario {
    fn secret(&self, whose: &str, what: &str) -> Seed {
        let mut secret = [0; 32];
        Stream::new(self.seed, &format!("{whose}/{what}")).fill_bytes(&mut secret);
        Seed(secret)
    }

    /// How the source of a flow protects it.
    pub(super) fn source_protection(&self, flow: &str) -> Option<SourceProtection> {
        self.security.map(|security| SourceProtection {
            identity: self.secret(flow, "identity"),
            random: self.secret(flow, "keys"),
            tokens: security.tokens,
            clock: CLOCK,
            born: 1,
        })
    }

    /// What a receiver of a protected flow has: with `token`, that too.
    pub(super) fn sink_protection(
        &self,
        flow: &str,
        receiver: &str,
        token: bool,
    ) -> Option<SinkProtection> {
        self.security?;
        let source = Signer::from_seed(&self.secret(flow, "identity").0);
        let claims = Claims {
            flow: flow.to_owned(),
            member: None,
            level: Level::FULL,
            expires: u64::MAX,
        };
        let holder = self.secret(receiver, "token").0;
        Some(SinkProtection {
            source: Some(source.public()),
            token: token.then(|| Token::issue(&source, claims, holder)),
            random: self.secret(receiver, "keys"),
            clock: CLOCK,
        })
    }

    /// Whether switches ask for tokens.
    pub(super) fn requires_tokens(&self) -> bool {
        self.security.is_some_and(|security| security.tokens)
    }
}
