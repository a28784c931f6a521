//! Writes the seeds of the fuzz corpus: a token, a proof and a grant, and each with one thing wrong.
//!
//! `cargo run -p layercast-protect --example protect_corpus -- fuzz/corpus`

use std::fs;
use std::io;
use std::path::PathBuf;

use layercast_core::{FlowId, Level, NodeId};
use layercast_protect::{Claims, ExchangeKey, Grantee, GroupKey, Signer, Token, grant};

fn main() -> io::Result<()> {
    let Some(root) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("usage: protect_corpus DIRECTORY"));
    };
    let put = |target: &str, name: &str, bytes: &[u8]| {
        let folder = root.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)?;
        fs::write(
            folder.join(format!("{name}-short")),
            &bytes[..bytes.len() / 2],
        )?;
        let mut wrong = bytes.to_vec();
        wrong[1] ^= 0x40;
        fs::write(folder.join(format!("{name}-wrong")), wrong)
    };
    let source = Signer::from_seed(&[1; 32]);
    for (name, member) in [("any", None), ("dwp", Some("dwp"))] {
        let claims = Claims {
            flow: "bunny".into(),
            member: member.map(str::to_owned),
            level: Level::E1,
            expires: 1_000,
        };
        let token = Token::issue(&source, claims, [2; 32]);
        put("token", name, token.to_string().as_bytes())?;
        let proof = token.prove(FlowId(7), ("dwp", NodeId(4)), [9; 32], 1);
        put("token", &format!("proof-{name}"), &proof.encode())?;
    }
    let exchange = ExchangeKey::new([3; 32]).public();
    let grantee = Grantee {
        flow: FlowId(7),
        member: "dwp",
        exchange: &exchange,
    };
    for level in [Level::BASE, Level::FULL] {
        let key = GroupKey::new(1, &[5; 32]).up_to(level);
        let octets = grant(&source, &grantee, &key, [6; 32]).map_err(io::Error::other)?;
        put("grant", &format!("level-{}", level.get()), &octets)?;
    }
    Ok(())
}
