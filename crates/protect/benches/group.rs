//! Time to seal and to open a packet of media, and to verify a proof and make a grant.
#![allow(
    missing_docs,
    reason = "criterion_group! makes an undocumented function"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use layercast_core::{FlowId, Layer, Level, NodeId, Serial};
use layercast_protect::{
    Claimant, Claims, ExchangeKey, Grantee, GroupKey, MediaCipher, Place, Signer, Token, grant,
};

const MEDIA: usize = 1_159;

fn media(c: &mut Criterion) {
    let mut group = c.benchmark_group("protect/media");
    group.throughput(Throughput::Bytes(MEDIA as u64));
    let cipher = MediaCipher::new(&GroupKey::new(1, &[7; 32]));
    let header = [1; 24];
    let place = |seq| Place {
        flow: FlowId(7),
        seq: Serial(seq),
        offset: 0,
    };
    let mut seq = 0;
    let mut packet = vec![9; MEDIA];
    group.bench_function("seal", |b| {
        b.iter(|| {
            seq += 1;
            cipher.seal(Layer::Base, place(seq), &header, &mut packet)
        });
    });
    let trailer = cipher.seal(Layer::Base, place(0), &header, &mut packet);
    packet.extend_from_slice(&trailer.expect("sealed"));
    group.bench_function("open", |b| {
        let mut copy = packet.clone();
        b.iter(|| {
            copy.copy_from_slice(&packet);
            cipher.open(Layer::Base, place(0), &header, &mut copy)
        });
    });
}

fn members(c: &mut Criterion) {
    let source = Signer::from_seed(&[1; 32]);
    let claims = Claims {
        flow: "bunny".into(),
        member: None,
        level: Level::FULL,
        expires: 10,
    };
    let token = Token::issue(&source, claims, [2; 32]);
    let ours = ExchangeKey::new([3; 32]);
    let exchange = ours.public();
    let proof = token.prove(FlowId(7), ("dwp", NodeId(4)), exchange, 1);
    let claimant = Claimant {
        flow_name: "bunny",
        flow: FlowId(7),
        member: "dwp",
        id: NodeId(4),
        now: 2,
    };
    c.bench_function("protect/proof", |b| {
        b.iter(|| proof.verify(&source.public(), &claimant).is_ok());
    });
    let key = GroupKey::new(1, &[4; 32]);
    let grantee = Grantee {
        flow: FlowId(7),
        member: "dwp",
        exchange: &exchange,
    };
    c.bench_function("protect/grant", |b| {
        b.iter(|| grant(&source, &grantee, &key, [5; 32]));
    });
}

criterion_group!(benches, media, members);
criterion_main!(benches);
