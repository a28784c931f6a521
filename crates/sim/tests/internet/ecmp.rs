//! Flows over equal ways: what a permutation of the hosts of a fat tree gets, beside max-min fairness with independent hashes.

use std::path::Path;

use layercast_core::Stream;
use layercast_sim::internet::scenario::Scenario;

use super::common::run;

/// To which other host each one sends.
fn permutation(hosts: usize, random: &mut Stream) -> Vec<usize> {
    loop {
        let mut to: Vec<usize> = (0..hosts).collect();
        for n in (1..hosts).rev() {
            to.swap(n, random.below(n as u64 + 1) as usize);
        }
        if to.iter().enumerate().all(|(from, &to)| from != to) {
            return to;
        }
    }
}

/// The links of each flow of a permutation where each router chooses on its own; links are numbered as they come.
fn random_ways(k: usize, to: &[usize], random: &mut Stream) -> Vec<Vec<[usize; 3]>> {
    let half = k / 2;
    let (edge, pod) = (|host: usize| host / half, |host: usize| host / half / half);
    let way = |(from, &to): (usize, &usize)| {
        // Kind, from, to.
        let mut links = vec![[0, from, 0], [1, to, 0]];
        if edge(from) != edge(to) {
            let agg = random.below(half as u64) as usize;
            links.extend([[2, edge(from), agg], [3, edge(to), agg]]);
            if pod(from) != pod(to) {
                let core = agg * half + random.below(half as u64) as usize;
                links.extend([[4, pod(from), core], [5, pod(to), core]]);
            }
        }
        links
    };
    to.iter().enumerate().map(way).collect()
}

/// The mean of the max-min fair rates, as a share of the rate of a link (progressive filling, Bertsekas and Gallager 1992).
fn max_min(ways: &[Vec<[usize; 3]>]) -> f64 {
    let mut links: Vec<([usize; 3], f64, Vec<usize>)> = Vec::new();
    let mut numbers = std::collections::BTreeMap::new();
    for (flow, way) in ways.iter().enumerate() {
        for link in way {
            let number = *numbers.entry(link).or_insert(links.len());
            if number == links.len() {
                links.push((*link, 1.0, Vec::new()));
            }
            links[number].2.push(flow);
        }
    }
    let mut rates: Vec<Option<f64>> = vec![None; ways.len()];
    loop {
        let free = |flows: &[usize]| flows.iter().filter(|&&it| rates[it].is_none()).count();
        let share = |(_, room, flows): &([usize; 3], f64, Vec<usize>)| match free(flows) {
            0 => f64::INFINITY,
            count => {
                let taken: f64 = flows.iter().filter_map(|&it| rates[it]).sum();
                (room - taken) / count as f64
            }
        };
        let (link, least) = links
            .iter()
            .map(share)
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .expect("there are links");
        if least.is_infinite() {
            break;
        }
        for flow in links[link].2.clone() {
            rates[flow].get_or_insert(least);
        }
    }
    let all: f64 = rates.into_iter().flatten().sum();
    all / ways.len() as f64
}

fn shares_as_max_min(k: usize, rate: u64, seconds: f64) {
    let mut random = Stream::new(1, "test/permutation");
    let hosts = k * k * k / 4;
    let to = permutation(hosts, &mut random);
    let draws = (0..8).map(|_| max_min(&random_ways(k, &to, &mut random)));
    let expected = draws.sum::<f64>() / 8.0;
    // All flows begin simultaneously: the queues are in balance after the first second.
    let mut text = format!(
        r#"
        schema = "internet/1"
        name = "permutation"
        run = {{ duration = "{seconds}s", warm_up = "1s" }}
        tcp.default = {{ min_rto = "20ms" }}
        [topology]
        kind = "fat-tree"
        k = {k}
        trunk = {{ rate = "{rate} Mbit/s", delay = "100us", queue = "25 packets" }}
        access = {{ rate = "{rate} Mbit/s", delay = "100us", queue = "25 packets" }}
        "#
    );
    for (from, to) in to.iter().enumerate() {
        let (from, to) = (from + 1, to + 1);
        text +=
            &format!("\n[[flow]]\nname = \"f{from}\"\nfrom = \"host{from}\"\nto = \"host{to}\"\n");
    }
    let scenario = Scenario::from_toml(&text, Path::new("")).unwrap();
    let report = run(&scenario.resolve().unwrap());
    let unused = report.queues.iter().filter(|queue| {
        let into_core = queue.name.contains("->core");
        into_core && queue.sent == 0
    });
    // Of all links to the core each gets as many flows as a random choice gives: e^-m of them none with m flows a link.
    let links = hosts as f64;
    let unused = unused.count() as f64 / links;
    assert!(unused < 0.45, "{unused}");
    let used_core = |core: usize| {
        let name = format!("->core{core}");
        let mut queues = report.queues.iter();
        queues.any(|queue| queue.name.ends_with(&name) && queue.sent > 0)
    };
    let half = k / 2;
    assert!((1..=half * half).all(used_core));
    let goodput: f64 = report.flows.iter().map(|flow| flow.goodput_bps).sum();
    let mean = goodput / hosts as f64 / (rate as f64 * 1e6) * 1_500.0 / 1_448.0;
    // .482 and .481 with k = 8, .454 and .429 with k = 16.
    assert!((mean / expected - 1.0).abs() < 0.1, "{mean} {expected}");
}

#[test]
fn a_permutation_of_a_fat_tree_gets_what_max_min_fairness_gives() {
    shares_as_max_min(8, 20, 2.5);
}

#[test]
fn a_larger_permutation_gets_it_too() {
    shares_as_max_min(16, 10, 1.7);
}

/// Connections of the same two hosts differ by their ports alone, and take different ways.
#[test]
fn parallel_connections_of_two_hosts_take_several_ways() {
    let mut text = r#"
        schema = "internet/1"
        name = "parallel"
        run = { duration = "1s" }
        [topology]
        kind = "fat-tree"
        k = 4
        trunk = { rate = "10 Mbit/s", delay = "100us", queue = "25 packets" }
        access = { rate = "100 Mbit/s", delay = "100us", queue = "25 packets" }
        "#
    .to_owned();
    for n in 1..=32 {
        text += &format!("\n[[flow]]\nname = \"f{n}\"\nfrom = \"host1\"\nto = \"host16\"\n");
    }
    let scenario = Scenario::from_toml(&text, Path::new("")).unwrap();
    let report = run(&scenario.resolve().unwrap());
    let busy = |queue: &&layercast_sim::internet::QueueReport| {
        queue.name.starts_with("pod1-agg") && queue.name.contains("->core") && queue.sent > 100
    };
    assert_eq!(report.queues.iter().filter(busy).count(), 4);
}
