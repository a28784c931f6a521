//! Sections 2 and 5 of specs/where-to-use-fec.md: the recursion against the closed forms and the tables.

use layercast_core::Stream;
use layercast_fec::model::{Branch, Tree, TreeError, expected};

fn near(found: f64, published: f64, off: f64, what: &str) {
    assert!(
        (found / published - 1.0).abs() < off,
        "{what}: {found} instead of {published}"
    );
}

fn at(tree: &Tree) -> f64 {
    tree.expected().expect("a tree")
}

/// Tree 3 with FEC on the shared part or the branches, with factor 100.
fn gain3(branch: u32, receivers: u64, losses: [f64; 2], fec: [bool; 2]) -> (f64, f64, f64) {
    let by = |it: usize| {
        if fec[it] {
            losses[it] / 100.0
        } else {
            losses[it]
        }
    };
    let without = at(&Tree::tree3(30, branch, receivers, losses[0], losses[1]));
    let with = at(&Tree::tree3(30, branch, receivers, by(0), by(1)));
    (without, with, without / with)
}

/// Tree 4: E(T), gain with FEC in the WAN, gain in the LAN.
fn gains4(lan_size: u64, receivers: u64, shared: u32) -> [f64; 3] {
    let of = |losses| {
        at(&Tree::tree4(
            30,
            25 - shared,
            5,
            receivers,
            lan_size,
            losses,
        ))
    };
    let without = of([1e-3, 1e-3, 1e-4]);
    [
        without,
        without / of([1e-5, 1e-5, 1e-4]),
        without / of([1e-3, 1e-3, 1e-6]),
    ]
}

/// Equations (6), (11) and (12), with binomials multiplied out.
fn closed(inner: &[(f64, f64)], i: u32) -> f64 {
    let Some(((loss, count), rest)) = inner.split_first() else {
        return 1.0;
    };
    if i == 0 {
        return 0.0;
    }
    if rest.is_empty() {
        return (1.0 - loss.powi(i as i32)).powf(*count);
    }
    let choose = |u: u32| {
        (0..u)
            .map(|j| f64::from(i - j) / f64::from(j + 1))
            .product::<f64>()
    };
    let term = |u: u32| {
        choose(u) * loss.powi(u as i32) * (1.0 - loss).powi((i - u) as i32) * closed(rest, i - u)
    };
    (0..i).map(term).sum::<f64>().powf(*count)
}

fn expected_closed(inner: &[(f64, f64)]) -> f64 {
    (0..60).map(|i| 1.0 - closed(inner, i)).sum()
}

fn path(loss: f64, hops: i32) -> f64 {
    1.0 - (1.0 - loss).powi(hops)
}

#[test]
fn recursion_and_closed_forms_agree() {
    for (branch, receivers) in [(1, 1), (5, 30), (30, 30), (12, 1_000), (29, 3_000)] {
        let tree = Tree::tree3(30, branch, receivers, 1e-3, 1e-2);
        let form = [
            (path(1e-3, 30 - branch as i32), 1.0),
            (path(1e-2, branch as i32), receivers as f64),
        ];
        near(at(&tree), expected_closed(&form), 1e-10, "tree 3");
    }
    for (shared, receivers, lan) in [(0, 100, 5), (10, 1_000, 25), (24, 3_000, 100)] {
        let tree = Tree::tree4(30, 25 - shared, 5, receivers, lan, [1e-3, 1e-3, 1e-4]);
        let wan = (path(1e-3, 25 - shared as i32), (receivers / lan) as f64);
        let form = [
            (path(1e-3, shared as i32), 1.0),
            wan,
            (path(1e-4, 5), lan as f64),
        ];
        near(at(&tree), expected_closed(&form), 1e-10, "tree 4");
    }
}

/// Evaluation link by link and copy by copy equals the aggregated one.
#[test]
fn links_may_be_aggregated_and_copies_counted() {
    let chain = |loss: f64, hops: u32, end: Vec<Branch>| {
        (0..hops).fold(end, |below, _| {
            vec![Branch {
                below,
                ..Branch::leaf("link", loss, 1, 1)
            }]
        })
    };
    let receiver = || chain(1e-3, 4, Vec::new()).remove(0);
    let receivers: Vec<Branch> = (0..12).map(|_| receiver()).collect();
    let long = Tree {
        below: chain(2e-3, 6, receivers),
    };
    let shared = Branch {
        below: vec![Branch::leaf("branch", 1e-3, 4, 12)],
        ..Branch::leaf("shared", 2e-3, 6, 1)
    };
    let short = Tree {
        below: vec![shared],
    };
    near(at(&long), at(&short), 1e-12, "aggregated");
    assert_eq!(
        (long.links(), long.receivers()),
        (short.links(), short.receivers())
    );
}

/// A tree with one level equals the star in all digits.
#[test]
fn a_tree_of_one_level_is_the_star() {
    for (loss, receivers) in [(0.01, 100), (1e-7, 1_000_000), (0.3, 7)] {
        let tree = Tree {
            below: vec![Branch::leaf("branch", loss, 1, receivers)],
        };
        near(at(&tree), expected(loss, receivers as f64), 1e-12, "star");
    }
    let published = Tree {
        below: vec![Branch::leaf("branch", 0.01, 1, 100)],
    };
    near(at(&published), 1.6440, 5e-5, "the specification");
}

#[test]
fn w1_gain_of_fec_everywhere_in_small_groups() {
    let table = [
        (1, [1.0302, 1.0302, 1.0302, 1.0302, 1.0302]),
        (5, [1.1421, 1.1070, 1.0698, 1.0503, 1.0342]),
        (10, [1.2645, 1.1948, 1.1170, 1.0748, 1.0393]),
        (20, [1.4605, 1.3457, 1.2046, 1.1221, 1.0493]),
        (30, [1.6059, 1.4691, 1.2837, 1.1669, 1.0593]),
    ];
    for (receivers, row) in table {
        for (shared, published) in [0, 10, 20, 25, 29].into_iter().zip(row) {
            let (_, with, gain) = gain3(30 - shared, receivers, [1e-3; 2], [true; 2]);
            near(
                gain,
                published,
                5e-5,
                &format!("r = {receivers}, shared {shared}"),
            );
            assert!(with < 1.01);
        }
    }
}

#[test]
fn w2_w3_transmissions_in_big_groups() {
    let table = [
        (
            100,
            [
                [2.037, 1.030, 1.978],
                [1.923, 1.020, 1.886],
                [1.675, 1.010, 1.659],
                [1.128, 1.001, 1.126],
            ],
        ),
        (
            300,
            [
                [2.239, 1.086, 2.061],
                [2.132, 1.058, 2.015],
                [2.020, 1.030, 1.962],
                [1.297, 1.003, 1.292],
            ],
        ),
        (
            1_000,
            [
                [2.609, 1.259, 2.072],
                [2.356, 1.181, 1.994],
                [2.138, 1.095, 1.951],
                [1.681, 1.010, 1.664],
            ],
        ),
        (
            3_000,
            [
                [3.004, 1.594, 1.885],
                [2.743, 1.451, 1.890],
                [2.306, 1.259, 1.831],
                [2.011, 1.030, 1.953],
            ],
        ),
        (
            10_000,
            [
                [3.236, 1.951, 1.658],
                [3.087, 1.865, 1.655],
                [2.692, 1.633, 1.649],
                [2.069, 1.095, 1.889],
            ],
        ),
    ];
    for (receivers, row) in table {
        for (shared, published) in [0, 10, 20, 29].into_iter().zip(row) {
            let found = gain3(30 - shared, receivers, [1e-3; 2], [true; 2]);
            for (found, published) in [found.0, found.1, found.2].into_iter().zip(published) {
                near(
                    found,
                    published,
                    5e-4,
                    &format!("r = {receivers}, shared {shared}"),
                );
            }
        }
    }
}

#[test]
fn w4_w5_shared_path_or_branches() {
    let table = [
        (1, 1, [1.0291, 1.0001, 1.0291, 1.0100]),
        (10, 3, [1.0271, 1.0030, 1.0271, 1.2656]),
        (20, 5, [1.0251, 1.0099, 1.0251, 1.6668]),
        (30, 1, [1.0291, 1.0030, 1.0291, 1.2596]),
        (30, 3, [1.0271, 1.0089, 1.0271, 1.6078]),
        (30, 5, [1.0251, 1.0147, 1.0251, 1.8247]),
    ];
    for (receivers, branch, published) in table {
        let gain = |lan, fec| gain3(branch, receivers, [1e-3, lan], fec).2;
        let (shared, branches) = ([true, false], [false, true]);
        let found = [
            gain(1e-4, shared),
            gain(1e-4, branches),
            gain(1e-2, shared),
            gain(1e-2, branches),
        ];
        for (found, published) in found.into_iter().zip(published) {
            near(
                found,
                published,
                6e-5,
                &format!("r = {receivers}, k = {branch}"),
            );
        }
    }
}

#[test]
fn w6_to_w8_wan_or_lan() {
    let table = [
        (
            5,
            100,
            [
                [1.438, 1.365, 1.023],
                [1.315, 1.250, 1.029],
                [1.163, 1.108, 1.040],
                [1.094, 1.042, 1.046],
            ],
        ),
        (
            5,
            1_000,
            [
                [2.136, 1.501, 1.012],
                [2.049, 1.451, 1.017],
                [1.823, 1.302, 1.090],
                [1.541, 1.105, 1.269],
            ],
        ),
        (
            5,
            3_000,
            [
                [2.367, 1.308, 1.022],
                [2.188, 1.217, 1.018],
                [2.060, 1.154, 1.027],
                [1.928, 1.083, 1.289],
            ],
        ),
        (
            25,
            100,
            [
                [1.144, 1.090, 1.042],
                [1.118, 1.065, 1.044],
                [1.090, 1.039, 1.047],
                [1.078, 1.028, 1.048],
            ],
        ),
        (
            25,
            1_000,
            [
                [1.826, 1.304, 1.101],
                [1.708, 1.222, 1.156],
                [1.540, 1.104, 1.272],
                [1.453, 1.042, 1.359],
            ],
        ),
        (
            25,
            3_000,
            [
                [2.129, 1.193, 1.052],
                [2.054, 1.152, 1.091],
                [1.934, 1.087, 1.296],
                [1.850, 1.040, 1.603],
            ],
        ),
        (
            100,
            100,
            [
                [1.075, 1.025, 1.048],
                [1.075, 1.025, 1.048],
                [1.075, 1.025, 1.048],
                [1.075, 1.025, 1.048],
            ],
        ),
        (
            100,
            1_000,
            [
                [1.558, 1.117, 1.265],
                [1.510, 1.083, 1.305],
                [1.457, 1.045, 1.355],
                [1.435, 1.029, 1.380],
            ],
        ),
        (
            100,
            3_000,
            [
                [1.984, 1.114, 1.276],
                [1.927, 1.083, 1.383],
                [1.861, 1.046, 1.582],
                [1.831, 1.030, 1.712],
            ],
        ),
    ];
    for (lan_size, receivers, row) in table {
        for (shared, published) in [0, 10, 20, 24].into_iter().zip(row) {
            for (found, published) in gains4(lan_size, receivers, shared)
                .into_iter()
                .zip(published)
            {
                near(
                    found,
                    published,
                    5e-4,
                    &format!("r_LAN = {lan_size}, r = {receivers}, shared {shared}"),
                );
            }
        }
    }
    let crossing = |lan_size, receivers| {
        (0..25).find(|&shared| {
            let [_, wan, lan] = gains4(lan_size, receivers, shared);
            lan > wan
        })
    };
    assert_eq!(
        [100, 200, 500, 1_000, 3_000].map(|r| crossing(5, r)),
        [24, 24, 23, 23, 23].map(Some)
    );
    assert_eq!(
        [100, 200, 500, 1_000, 3_000].map(|r| crossing(25, r)),
        [18, 15, 14, 14, 14].map(Some)
    );
    assert_eq!([100, 1_000, 3_000].map(|r| crossing(100, r)), [Some(0); 3]);
    near(gains4(5, 400, 0)[1], 1.626, 5e-4, "highest WAN gain");
    near(
        gains4(25, 900, 0)[1],
        1.304,
        5e-4,
        "highest WAN gain of figure 11",
    );
}

#[test]
fn perfect_and_hopeless_links() {
    let perfect = Tree {
        below: vec![Branch::leaf("a", 0.0, 3, 10_000_000)],
    };
    assert_eq!(at(&perfect), 1.0);
    for (receivers, loss) in [(10_000_000_u64, 1e-15), (3, 1e-12)] {
        let tree = Tree {
            below: vec![Branch::leaf("a", loss, 1, receivers)],
        };
        let (found, published) = (at(&tree) - 1.0, receivers as f64 * loss);
        assert!(
            (found - published).abs() < 1e-15 + 1e-7 * published,
            "{found} instead of {published}"
        );
    }
    let hopeless = Tree {
        below: vec![Branch::leaf("b", 0.5, 20, 1)],
    };
    assert!(matches!(hopeless.expected(), Err(TreeError::Unreachable { name, .. }) if name == "b"));
    for loss in [1.0, -0.1, f64::NAN] {
        let tree = Tree {
            below: vec![Branch::leaf("c", loss, 1, 1)],
        };
        assert!(matches!(tree.expected(), Err(TreeError::Loss { .. })));
    }
    assert_eq!(Tree { below: Vec::new() }.expected(), Err(TreeError::Empty));
    assert_eq!(
        Tree {
            below: vec![Branch::leaf("d", 0.1, 1, 0)]
        }
        .expected(),
        Err(TreeError::Empty)
    );
}

/// Sends packets down tree 4 one by one.
#[test]
fn sending_packets_down_the_tree_gives_the_same() {
    let (wans, lan_size, branch) = (20_usize, 25_usize, 15);
    let published = at(&Tree::tree4(30, branch, 5, 500, 25, [1e-3, 1e-3, 1e-4]));
    let [shared, wan, lan] = [path(1e-3, 10), path(1e-3, 15), path(1e-4, 5)];
    let mut stream = Stream::new(1, "tree");
    let packets = 20_000;
    let mut sent = 0_u32;
    for _ in 0..packets {
        let mut lacking = vec![vec![true; lan_size]; wans];
        while lacking.iter().flatten().any(|it| *it) {
            sent += 1;
            if stream.chance(shared) {
                continue;
            }
            for part in lacking.iter_mut().filter(|it| it.contains(&true)) {
                if !stream.chance(wan) {
                    part.iter_mut()
                        .filter(|it| **it)
                        .for_each(|it| *it = stream.chance(lan));
                }
            }
        }
    }
    near(
        f64::from(sent) / f64::from(packets),
        published,
        0.01,
        "simulated",
    );
}

#[test]
fn receivers_beyond_the_bound_are_refused_by_branch_and_up_to_it_values_are_finite() {
    let tree = |above: u64, below: u64| Tree {
        below: vec![Branch {
            below: vec![Branch::leaf("b", 0.1, 1, below)],
            ..Branch::leaf("a", 0.1, 1, above)
        }],
    };
    for (above, below) in [
        (1_000_000_000, 1_000_000_000),
        (u64::MAX, u64::MAX),
        (2, 500_000_001),
    ] {
        let error = tree(above, below).expected().unwrap_err();
        assert_eq!(error, TreeError::TooMany("b".to_owned()));
        assert!(
            error.to_string().contains("1000000000 receivers"),
            "{error}"
        );
    }
    let side_by_side = Tree {
        below: vec![
            Branch::leaf("first", 0.1, 1, 1_000_000_000),
            Branch::leaf("second", 0.1, 1, 1),
        ],
    };
    let too_many = Err(TreeError::TooMany("second".to_owned()));
    assert_eq!(side_by_side.expected(), too_many);

    // Independent paths of two links that lose 0.19 together: the most of a thousand million geometric variables.
    let alone = Tree {
        below: vec![Branch::leaf("alone", 0.1, 2, 1_000_000_000)],
    };
    let alone = alone.expected().unwrap();
    for (above, below) in [(1, 1_000_000_000), (1_000_000_000, 1), (31_000, 31_000)] {
        let shared = tree(above, below).expected().unwrap();
        assert!(
            shared <= alone + 1e-6 && shared > 9.0,
            "{above} {below}: {shared}"
        );
    }
}
