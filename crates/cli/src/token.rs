//! `layercast token`: lets somebody join a flow that takes tokens.

use layercast_net::{Clock, Identity, random_seed, wall_clock};
use layercast_protect::{Claims, Signer, Token};

use crate::address;
use crate::args;
use crate::failure::{Failure, Outcome};
use crate::output::print;

/// Runs the command.
pub fn run(args: &args::Token) -> Outcome {
    // A new file here would be an identity that no server has.
    let file = &args.identity;
    let identity = Identity::from_pem(file, file).map_err(|error| {
        Failure::new(error).hint("use the file that layercast serve --identity has written")
    })?;
    if let Some(exposed) = identity.exposed() {
        eprintln!("warning: {exposed}");
    }
    let source = Signer::from_seed(&identity.source_seed().0);
    let now = wall_clock().at(Clock::get().now());
    let claims = Claims {
        flow: args.flow.clone(),
        member: args.member.clone(),
        level: args.level,
        expires: now.saturating_add(args.expires.as_ms() / 1_000),
    };
    let token = Token::issue(&source, claims, random_seed().0).to_string();
    let Some(url) = &args.url else {
        return print(&format!("{token}\n"));
    };
    let mut url = address::parse(url)?;
    url.flow = Some(args.flow.clone());
    url.source = Some(source.public().0);
    url.token = Some(token);
    print(&format!("{url}\n"))
}
