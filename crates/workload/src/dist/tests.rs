use layercast_core::Stream;
use proptest::prelude::*;

use super::*;

fn find(text: &str) -> Result<Distribution, DistError> {
    Distribution::find(text, &|path| Err(format!("{path} is not there")))
}

fn library() -> Vec<Distribution> {
    let all: Result<Vec<_>, _> = names().map(find).collect();
    all.expect("the built-in distributions are valid")
}

fn draws(dist: &Distribution, n: usize) -> Vec<f64> {
    let mut stream = Stream::new(1, &dist.name);
    (0..n).map(|_| dist.sample(&mut stream)).collect()
}

/// specs/insane-workloads.md 5.2: name, mean of the knots, p50, p90 and p99 of the original, maximum.
const EXPECTED: [(&str, f64, [f64; 3], f64); 20] = [
    (
        "telnet.interarrival",
        1848.0,
        [232.5, 1583.0, 20_000.0],
        1_140_000.0,
    ),
    ("telnet.replysize", 25.8, [1.0, 40.0, 526.0], 1024.0),
    (
        "telnet.duration",
        677_468.0,
        [169_737.0, 1_971_000.0, 6_927_000.0],
        7_200_000.0,
    ),
    ("ftp.nitems", 7.54, [4.0, 17.0, 53.0], 347.0),
    (
        "ftp.itemsize",
        40_205.0,
        [509.0, 42_000.0, 550_000.0],
        22_050_000.0,
    ),
    ("ftp.ctlsize", 28.72, [25.0, 60.0, 84.0], 443.0),
    (
        "smtp.itemsize",
        1679.0,
        [439.0, 2675.0, 15_500.0],
        450_000.0,
    ),
    ("nntp.nitems", 383.5, [19.0, 1257.0, 4623.0], 4806.0),
    ("nntp.itemsize", 2027.0, [1506.0, 4126.0, 7135.0], 61_299.0),
    ("phone.talkspurt", 1368.0, [785.7, 3500.0, 7000.0], 10_000.0),
    ("phone.pause", 1664.0, [732.4, 4000.0, 13_125.0], 20_000.0),
    ("http.request", 355.5, [231.0, 1062.0, 1156.0], 1825.0),
    (
        "http.reply",
        9803.0,
        [2035.0, 15_280.0, 98_130.0],
        8_146_976.0,
    ),
    ("http.files_per_page", 2.905, [2.0, 6.0, 19.0], 65.0),
    ("http.consecutive_pages", 4.056, [2.0, 10.0, 19.0], 37.0),
    ("http.think", 1293.0, [15.32, 530.1, 51_809.0], 86_394.9),
    (
        "http97.request.primary",
        396.7,
        [238.0, 1114.0, 1158.0],
        1825.0,
    ),
    (
        "http97.reply.primary",
        15_286.0,
        [2092.0, 11_457.0, 273_741.0],
        8_146_976.0,
    ),
    (
        "http97.request.secondary",
        332.9,
        [227.0, 1057.0, 1152.0],
        1288.0,
    ),
    (
        "http97.reply.secondary",
        6853.0,
        [1981.0, 16_857.0, 73_480.0],
        246_212.0,
    ),
];

#[test]
fn the_library_has_the_statistics_of_the_specification() {
    for (name, mean, quantiles, max) in EXPECTED {
        let dist = find(name).unwrap();
        let near = |found: f64, wanted: f64, share: f64| (found - wanted).abs() <= share * wanted;
        assert!(
            near(dist.mean(), mean, 0.002),
            "{name}: mean {}",
            dist.mean()
        );
        assert_eq!(dist.quantile(1.0), max, "{name}");
        // The knots are within 0.005 in probability of the original, whose quantiles these are.
        for (p, wanted) in [0.5, 0.9, 0.99].into_iter().zip(quantiles) {
            let (low, high) = (dist.cdf_below(wanted), dist.cdf(wanted));
            assert!(
                low - 0.0075 <= p && p <= high + 0.0075,
                "{name}: p{p} {low} {high}"
            );
        }
    }
    let sizes = ["video.size_cr", "video.size_bg"].map(|name| find(name).unwrap().mean());
    assert!(
        (sizes[0] - 758.0).abs() < 0.6 && (sizes[1] - 338.0).abs() < 0.6,
        "{sizes:?}"
    );
    let runs = [
        "geometric(0.1984,37) packets",
        "lomax(1.9,3.5823,462) packets",
    ];
    let runs = runs.map(|text| find(text).unwrap().mean());
    assert!(
        (runs[0] - 5.03).abs() < 0.01 && (runs[1] - 4.43).abs() < 0.01,
        "{runs:?}"
    );
}

#[test]
fn samples_are_of_their_distribution() {
    let formulas = [
        "exp(300) s",
        "pareto(1.5,10) B",
        "lomax(1.9,3.5823,462) packets",
        "geometric(0.1984,37) packets",
        "zipf(12) files",
        "uniform(0,450) s",
        "lognormal(3,1.5) ms",
    ];
    let formulas = formulas.map(|text| find(text).unwrap());
    for dist in library().iter().chain(&formulas) {
        let mut samples = draws(dist, 20_000);
        let fit = fit(&mut samples, dist).unwrap();
        assert!(fit.p_value > 0.001, "{}: {fit:?}", dist.name);
    }
}

#[test]
fn samples_of_another_distribution_are_found_out() {
    let [reply, other] =
        ["http97.reply.primary", "http97.reply.secondary"].map(|name| find(name).unwrap());
    let mut samples = draws(&reply, 2_000);
    assert!(fit(&mut samples, &other).unwrap().p_value < 1e-6);
    assert_eq!(fit(&mut [], &other), None);
    assert_eq!(fit(&mut [f64::NAN], &other), None);
}

#[test]
fn files_survive_writing_and_reading() {
    for dist in library() {
        let text = dist.to_file().unwrap();
        assert_eq!(Distribution::parse("again", &text).unwrap(), dist);
    }
}

fn problem(body: &str) -> (usize, Problem) {
    let err = Distribution::parse("x.dist", body).unwrap_err();
    (err.line, err.problem)
}

const HEAD: &str = "# dist v1\nname = \"a\"\nunit = \"files\"\nkind = \"int\"\n";

#[test]
fn broken_files_are_refused_with_their_line() {
    let with = |rest: &str| problem(&format!("{HEAD}{rest}"));
    assert_eq!(problem("name = \"a\""), (1, Problem::Magic));
    assert_eq!(with("[knots]\n"), (0, Problem::Empty));
    assert_eq!(with("[knots]\n0.5 1\n0.9 2\n"), (7, Problem::Last(0.9)));
    assert_eq!(
        with("[knots]\n0.5 1\n0.4 2\n1 3\n"),
        (7, Problem::FallingProbability(0.5, 0.4))
    );
    assert_eq!(
        with("[knots]\n0.5 3\n1 2\n"),
        (7, Problem::FallingValue(3.0, 2.0))
    );
    assert_eq!(with("[knots]\n0.5 1.5\n1 2\n"), (6, Problem::Fraction(1.5)));
    assert_eq!(with("[knots]\n1.5 1\n"), (6, Problem::Probability(1.5)));
    assert!(matches!(
        with("[knots]\nNaN 1\n"),
        (6, Problem::Probability(_))
    ));
    assert_eq!(with("[knots]\n1 -1\n"), (6, Problem::Value(-1.0)));
    assert_eq!(with("[knots]\n1 inf\n"), (6, Problem::Value(f64::INFINITY)));
    assert_eq!(
        with("[knots]\n1 0\n"),
        (6, Problem::Nothing(Unit::Files, 0.0))
    );
    assert!(matches!(with("[knots]\n1\n"), (6, Problem::Syntax(_))));
    assert!(matches!(with("[knots]\n1 2 3\n"), (6, Problem::Syntax(_))));
    assert!(matches!(
        with("mean = 3\n[knots]\n1 2\n"),
        (5, Problem::Mean { .. })
    ));
    assert!(matches!(
        with("mean = nan\n[knots]\n1 2\n"),
        (5, Problem::Mean { .. })
    ));
    assert!(matches!(with("colour = 3\n"), (5, Problem::Key(_))));
    assert_eq!(with("unit = \"B\"\n"), (5, Problem::Twice("unit")));
    assert!(matches!(
        with("interp = \"cubic\"\n[knots]\n1 1\n"),
        (0, Problem::Interp(_))
    ));
    assert_eq!(
        with("interp = \"loglinear\"\n[knots]\n1 1\n"),
        (7, Problem::Loglinear)
    );
    assert_eq!(
        problem("# dist v1\nname = \"a\"\n[knots]\n1 1\n"),
        (0, Problem::Missing("unit"))
    );
    let shown = Distribution::parse("x.dist", &format!("{HEAD}[knots]\n1.5 1\n")).unwrap_err();
    assert_eq!(
        shown.to_string(),
        "x.dist:6: the probability 1.5 is not between 0 and 1"
    );
}

#[test]
fn formulas_that_are_none_are_refused() {
    for text in [
        "exp(300)",
        "exp(0) s",
        "exp(1,2) s",
        "exp(x) s",
        "exp(nan) s",
        "lomax(1.9,3.5,0.5) packets",
        "lomax(0.0001,1000000,5) packets",
        "geometric(0,5) packets",
        "geometric(0.5,1e12) packets",
        "zipf(0) files",
        "uniform(5,1) s",
        "const(-1) s",
        "const(0) files",
        "gauss(1,2) s",
        "no such thing",
        "missing.dist",
    ] {
        assert!(find(text).is_err(), "{text}");
    }
}

#[test]
fn samples_of_a_constant_agree_with_it() {
    for formula in [
        "uniform(1,1) s",
        "uniform(0.3,0.3) s",
        "const(2) B",
        "const(2.5) s",
        "const(0) s",
        "lognormal(0.7,0) s",
    ] {
        let dist = find(formula).unwrap();
        let found = fit(&mut draws(&dist, 1000), &dist).unwrap();
        assert_eq!((found.distance, found.p_value), (0.0, 1.0), "{formula}");
        let other = fit(&mut [dist.quantile(0.5) + 0.1], &dist).unwrap();
        assert_eq!(other.distance, 1.0, "{formula}");
    }
}

#[test]
fn formulas_with_values_beyond_all_measure_are_refused() {
    for formula in [
        "exp(1e308) s",
        "exp(1e199) s",
        "pareto(0.0001,1) B",
        "pareto(0.05,1) B",
        "pareto(2,1e300) B",
        "uniform(0,1.7e308) s",
        "const(1e201) s",
    ] {
        let error = find(formula).unwrap_err();
        assert!(
            matches!(error.problem, Problem::Parameter(text) if text.contains("1e200")),
            "{error}"
        );
    }
    for formula in ["exp(1e198) s", "pareto(0.1,1) B", "lognormal(30,5) s"] {
        let dist = find(formula).unwrap();
        let last = dist.quantile(1.0 - f64::EPSILON / 2.0);
        assert!(last.is_finite(), "{formula}: {last}");
        let sum: f64 = draws(&dist, 1000).iter().sum();
        assert!(sum.is_finite(), "{formula}: {sum}");
    }
}

#[test]
fn a_dimension_is_asked_for() {
    let think = find("http.think").unwrap();
    assert!(think.clone().of(Dimension::Time).is_ok());
    assert!(matches!(
        think.of(Dimension::Size).unwrap_err().problem,
        Problem::Dimension { .. }
    ));
}

#[test]
fn knots_at_one_probability_jump_and_at_one_value_hold() {
    let knots = [(0.5, 1.0), (0.5, 10.0), (0.8, 10.0), (1.0, 20.0)];
    let knots = knots.map(|(p, x)| Knot { p, x }).to_vec();
    let law = Empirical::new(Unit::Bytes, Kind::Cont, Interp::Linear, knots).unwrap();
    assert_eq!(
        [0.0, 0.5, 0.6, 0.8, 0.9].map(|u| law.quantile(u)),
        [1.0, 1.0, 10.0, 10.0, 15.0]
    );
    assert_eq!(law.cdf(9.9), 0.5);
    assert_eq!((law.cdf_below(10.0), law.cdf(10.0)), (0.5, 0.8));
}

#[test]
fn foreign_files_are_read_and_condensed() {
    let read = |text, columns| import("x", text, columns, "x", Unit::Bytes, Kind::Int);
    let samples = read("# raw\n3\n1\n1\n\n4\n", Columns::Samples).unwrap();
    assert_eq!(
        [0.5, 0.75, 1.0].map(|u| samples.quantile(u)),
        [1.0, 3.0, 4.0]
    );
    let tcplib = read("1 0.2\n3 0.6\n9 1\n", Columns::ValueCdf).unwrap();
    assert_eq!(tcplib.quantile(0.6), 3.0);
    let ns2 = read("1, 2, 0.2\n3, 4, 0.6\n9, 1, 1\n", Columns::ValueCountCdf).unwrap();
    assert_eq!(ns2.law, tcplib.law);
    assert_eq!(read("1 2 3\n", Columns::ValueCdf).unwrap_err().line, 1);
    assert!(read("", Columns::Samples).is_err());
    let reply = find("http.reply").unwrap();
    let fewer = condense(&reply, 0.02);
    let (Law::Knots(before), Law::Knots(after)) = (&reply.law, &fewer.law) else {
        panic!("knots stay knots");
    };
    assert!(after.knots().len() < before.knots().len() / 2 + 2);
    for knot in before.knots() {
        assert!((fewer.cdf(knot.x) - knot.p).abs() <= 0.02 + 1e-9);
    }
}

proptest! {
    #[test]
    fn quantile_and_cdf_agree(steps in prop::collection::vec((0u32..20, 0u32..30), 1..20),
                              whole: bool, u in 0.0..1.0f64) {
        let total: u32 = steps.iter().map(|step| step.0).sum();
        prop_assume!(total > 0);
        let (mut p, mut x) = (0, 0);
        let knots: Vec<Knot> = steps.iter().map(|step| {
            p += step.0;
            x += step.1;
            Knot { p: f64::from(p) / f64::from(total), x: f64::from(x) }
        }).collect();
        let kind = if whole { Kind::Int } else { Kind::Cont };
        let law = Empirical::new(Unit::Bytes, kind, Interp::Linear, knots).unwrap();
        let value = law.quantile(u);
        // The quantile is the smallest value whose cumulative probability reaches u.
        prop_assert!(law.cdf(value) >= u - 1e-9);
        prop_assert!(law.cdf_below(value) <= u + 1e-9);
        let shares = (0..20_000).map(|i| law.quantile((f64::from(i) + 0.5) / 20_000.0));
        let mean = shares.sum::<f64>() / 20_000.0;
        prop_assert!((mean - law.mean()).abs() <= 0.01 * law.max() + 1e-9, "{} {}", mean, law.mean());
    }

    #[test]
    fn any_text_is_a_distribution_or_an_error(text in "(# dist v1\n)?[a-z0-9 =\"\n.\\[\\]-]{0,80}") {
        let _ = Distribution::parse("x", &text);
        let _ = Formula::parse(&text);
        let _ = import("x", &text, Columns::ValueCdf, "x", Unit::Bytes, Kind::Cont);
    }
}
