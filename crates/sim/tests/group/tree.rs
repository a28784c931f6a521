//! Trees beside their analytic models (specs/where-to-use-fec.md 2.2, 5), and codes on their parts.

use layercast_core::Span;
use layercast_fec::model::{Branch as Part, Tree};
use layercast_fec::{EncoderConfig, Scheme, model};
use layercast_multicast::SenderConfig;
use layercast_sim::group::{Branch, EdgeSpec, Group, LinkSpec};

use crate::common::{link, receivers, run, star};

/// Tree 4 with `shared` of 25 links of the WAN shared, and LANs of `size` receivers.
fn tree4(shared: u32, lans: u32, size: u32) -> Vec<Branch> {
    let row = |loss: f64, hops: u32| LinkSpec { hops, ..link(loss) };
    let inner = |name: &str, parent, link, count| Branch {
        name: name.to_owned(),
        receiver: None,
        ..receivers(parent, link, count)
    };
    vec![
        inner("shared", None, row(1e-3, shared), 1),
        inner("wan", Some(0), row(1e-3, 25 - shared), lans),
        receivers(Some(1), row(1e-4, 5), size),
    ]
}

fn with(branches: Vec<Branch>) -> Group {
    Group {
        branches,
        ..star(SenderConfig::rmtp(), 4_000, 1, 0.0)
    }
}

fn code(n: u8, m: u8) -> EdgeSpec {
    EdgeSpec {
        encoder: EncoderConfig {
            scheme: Scheme::XorShift,
            n,
            m,
            mtu: 4_096,
            flush: Span::from_ms(200),
            interleave: 1,
            keep: 0,
        },
        hold: Span::from_secs(2),
    }
}

#[test]
fn transmissions_are_those_of_the_recursion() {
    // Of one seed the standard deviation is half a percent.
    let mut found = [1, 2, 3, 4, 5].map(|seed| {
        let group = Group {
            seed,
            ..with(tree4(10, 4, 25))
        };
        run(group).transmissions_per_packet
    });
    found.sort_by(f64::total_cmp);
    let lan = Part::leaf("lan", 1e-4, 5, 25);
    let wan = Part {
        count: 4,
        below: vec![lan],
        ..Part::leaf("wan", 1e-3, 15, 1)
    };
    let shared = Part {
        below: vec![wan],
        ..Part::leaf("shared", 1e-3, 10, 1)
    };
    let tree = Tree {
        below: vec![shared],
    };
    let expected = tree.expected().unwrap();
    assert!(
        (found[2] / expected - 1.0).abs() < 0.01,
        "{found:?} {expected}"
    );
}

#[test]
fn a_code_leaves_the_loss_that_its_formula_says() {
    let mut group = with(vec![Branch {
        region: 1,
        ..receivers(None, link(0.02), 200)
    }]);
    group.edges = vec![code(10, 1)];
    let summary = run(group);
    let code = &summary.codes[0];
    let share = |count: u64| count as f64 / code.expected as f64;
    assert!((share(code.lost) - 0.02).abs() < 5e-4, "{code:?}");
    let residual = share(code.lost - code.recovered);
    let expected = model::residual(10, 1, 0.02);
    assert!(
        (residual / expected - 1.0).abs() < 0.03,
        "{residual} {expected}"
    );
    // Blocks that are not full when they are closed have parities, too.
    assert!(
        (code.sources / 10..code.sources / 9).contains(&code.parities),
        "{code:?}"
    );
    assert!(
        summary.outcomes.delivered == 200 && code.most_added_ms > 50.0,
        "{code:?}"
    );
}

#[test]
fn codes_one_behind_the_other_and_through_a_split() {
    for (regions, count) in [([1, 1, 2], 2), ([1, 1, 1], 1), ([0, 1, 0], 1)] {
        let mut branches = tree4(5, 5, 10);
        for (branch, region) in branches.iter_mut().zip(regions) {
            branch.region = region;
        }
        let mut group = with(branches);
        group.edges = vec![code(20, 2); count];
        let plain = run(with(tree4(5, 5, 10)));
        let coded = run(group);
        assert_eq!(coded.outcomes.delivered, 50);
        assert!(
            coded.transmissions_per_packet < plain.transmissions_per_packet - 0.02,
            "{regions:?}: {} {}",
            coded.transmissions_per_packet,
            plain.transmissions_per_packet
        );
        // Each input comes out once: no more, and in time.
        assert_eq!(coded.received.duplicates + 4_000 * 50, coded.received.data);
    }
}
