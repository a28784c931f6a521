//! `layercast workload` as a user runs it.

use std::fs;

use crate::common::{complaint, folder, json, run};

#[test]
fn samples_go_through_a_file_and_back_into_a_distribution() {
    let folder = folder("workload-samples");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let samples = run(&["workload", "sample", "http.reply", "-n", "20000"]);
    assert_eq!(
        samples.stdout,
        run(&["workload", "sample", "http.reply", "-n", "20000"]).stdout
    );
    fs::write(path("reply.csv"), &samples.stdout).unwrap();
    let reply = ["workload", "compare", "http.reply", "--samples"];
    let compared = json(&run(&[&reply[..], &[&path("reply.csv"), "--json"]].concat()));
    assert_eq!(compared["agrees"], true);
    assert_eq!(compared["fit"]["samples"], 20_000);

    let other = ["workload", "compare", "http97.reply.secondary", "--samples"];
    let output = run(&[&other[..], &[&path("reply.csv")]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("DIFFERS"));

    let body = String::from_utf8(samples.stdout).unwrap();
    fs::write(path("bare.txt"), body.split_once('\n').unwrap().1).unwrap();
    let import = [
        "workload",
        "import",
        &path("bare.txt"),
        "--unit",
        "B",
        "--whole",
        "--condense",
        "0.01",
    ];
    let imported = run(&import);
    assert_eq!(imported.status.code(), Some(0), "{}", complaint(&imported));
    fs::write(path("mine.dist"), &imported.stdout).unwrap();
    let listed = json(&run(&["workload", "list", &path("mine.dist"), "--json"]));
    let knots = listed[0]["knots"].as_u64().unwrap();
    assert!((5..200).contains(&knots), "{knots} knots");
}

#[test]
fn the_composite_workload_tells_what_it_offers() {
    let offered = ["workload", "offered", "--duration", "60s", "--json"];
    let all = json(&run(&offered));
    assert!(all["apps"]["telnet"]["conversations"].as_u64().unwrap() > 10);
    assert!(all["per_connection"]["setups"].as_u64() > all["per_application"]["setups"].as_u64());
    let short = run(&["workload", "offered", "--max-events", "100"]);
    assert_eq!(short.status.code(), Some(1));
    assert!(complaint(&short).contains("partial"));
}

#[test]
fn bad_input_gets_one_clear_line() {
    let folder = folder("workload-errors");
    let broken = folder.join("broken.dist").to_str().unwrap().to_owned();
    fs::write(
        &broken,
        "# dist v1\nname = \"a\"\nunit = \"B\"\nkind = \"int\"\n[knots]\n0.5 1\n0.4 2\n",
    )
    .unwrap();
    for (args, says) in [
        (
            &["workload", "sample", "gopher"][..],
            "unknown distribution",
        ),
        (&["workload", "sample", "exp(0) s"], "above 0"),
        (&["workload", "sample", "nowhere.dist"], "cannot read"),
        (&["workload", "list", &broken], "broken.dist:7"),
        (&["workload", "offered", "--sites", "1"], "two sites"),
        (&["workload", "offered", "--servers", "0"], "no server"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(
            complaint(&output).contains(says),
            "{args:?}: {}",
            complaint(&output)
        );
    }
    assert_eq!(
        run(&["workload", "import", "x", "--unit", "parsec"])
            .status
            .code(),
        Some(1)
    );
}
