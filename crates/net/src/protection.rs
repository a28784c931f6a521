use layercast_mets::{SinkProtection, SourceProtection};
use layercast_protect::{JoinUrl, Seed, SourceKey, Token, TokenError};

use crate::clock::{Clock, wall_clock};
use crate::random::random_seed;

/// What a receiver with the join URL `url` needs to play a flow that is sealed.
///
/// # Errors
/// The token in the URL is none.
pub fn sink_protection(url: &JoinUrl) -> Result<SinkProtection, TokenError> {
    Ok(SinkProtection {
        source: url.source.map(SourceKey),
        token: url.token.as_deref().map(str::parse::<Token>).transpose()?,
        random: random_seed(),
        clock: wall_clock(),
    })
}

/// How a source seals its media that signs with `identity`; with `tokens` only holders of one may join.
pub fn source_protection(identity: Seed, tokens: bool) -> SourceProtection {
    let clock = wall_clock();
    SourceProtection {
        identity,
        random: random_seed(),
        tokens,
        clock,
        born: clock.at(Clock::get().now()),
    }
}
