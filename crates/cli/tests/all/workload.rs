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
fn traces_go_through_files_into_the_models_behind_them() {
    let folder = folder("workload-analyze");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let [connections, packets, samples] = ["connections.csv", "video.csv", "samples"].map(path);
    let mut offered = vec![
        "workload",
        "offered",
        "--duration",
        "1500s",
        "--workstations",
        "20",
    ];
    offered.extend(["--connections", &connections, "--packets", &packets]);
    let output = run(&offered);
    assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));

    let http = ["workload", "analyze", "http", &connections];
    let table = run(&[&http[..], &["--out", &samples]].concat());
    assert!(String::from_utf8_lossy(&table.stdout).contains("http.consecutive_pages"));
    let found = json(&run(&[&http[..], &["--json"]].concat()));
    assert!(found["connections"]["other_port"].as_u64().unwrap() > 1_000);
    assert_eq!(found["mixed_pages"], 0);
    for name in ["request", "reply", "files_per_page"] {
        let file = path(&format!("samples/{name}.csv"));
        let model = format!("http.{name}");
        let output = run(&["workload", "compare", &model, "--samples", &file]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        let output = run(&["workload", "import", &file, "--unit", "B", "--whole"]);
        assert_eq!(output.status.code(), Some(0), "{}", complaint(&output));
    }
    let all = json(&run(
        &[&http[..], &["--threshold", "30s", "--json"]].concat()
    ));
    assert!(all["pages"].as_u64() < found["pages"].as_u64());

    let video = ["workload", "analyze", "video", &packets];
    let states = path("states.csv");
    let table = run(&[&video[..], &["--out", &states]].concat());
    assert!(String::from_utf8_lossy(&table.stdout).contains("changed blocks: run"));
    let found = json(&run(&[&video[..], &["--json"]].concat()));
    assert_eq!(found["off_lines"], 0.0);
    let lines = fs::read_to_string(&states).unwrap().lines().count() as u64;
    assert_eq!(found["packets"].as_u64().unwrap(), lines - 1);
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
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cut = write("cut.csv", "a,b,80,0,1,2,3\na,b,80,4,5\n");
    let mail = write("mail.csv", "a,b,25,0,1,2,3\n");
    let (empty, packet) = (write("empty.csv", ""), write("packet.csv", "0,100\n"));
    let unwritable = folder.join("no/such/folder").to_str().unwrap().to_owned();
    for (args, says) in [
        (
            &["workload", "analyze", "http", &cut][..],
            "cut.csv: line 2: 5 columns",
        ),
        (
            &["workload", "analyze", "http", &empty],
            "empty.csv: the trace has no connection",
        ),
        (
            &["workload", "analyze", "http", &mail],
            "none of 1 connections is left",
        ),
        (
            &["workload", "analyze", "video", &cut],
            "cut.csv: the trace is empty",
        ),
        (&["workload", "analyze", "video", &packet], "one packet"),
        (
            &["workload", "offered", "--connections", &unwritable],
            "cannot write",
        ),
        (
            &[
                "workload",
                "offered",
                "--duration",
                "1ms",
                "--packets",
                &empty,
            ],
            "no video was sent",
        ),
        (&["workload", "sample", "gopher"], "unknown distribution"),
        (&["workload", "sample", "exp(300)"], "write \"exp(300) s\""),
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

#[test]
fn text_in_another_encoding_is_said_to_be_no_text_without_a_remedy_for_traces() {
    let folder = folder("workload-encoding");
    for (name, bytes) in [
        ("marks.txt", &b"\xff\xfe\n"[..]),
        ("latin.txt", b"# Gr\xf6\xdfe\n1\n2\n"),
    ] {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        for args in [
            &["workload", "import", "--unit", "s", path][..],
            &["workload", "compare", "exp(1) s", "--samples", path],
            &["workload", "analyze", "http", path],
        ] {
            let output = run(args);
            let said = complaint(&output);
            assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
            assert!(
                said.contains("this is not text (UTF-8)"),
                "{args:?}: {said}"
            );
            assert!(!said.contains("trace"), "{args:?}: {said}");
        }
    }
}

#[test]
fn a_byte_order_mark_before_samples_and_scenarios_is_left_out() {
    let folder = folder("byte-order-mark");
    let samples = folder.join("samples.txt");
    fs::write(&samples, "\u{feff}1\n2\n3\n4\n").unwrap();
    let samples = samples.to_str().unwrap();
    let output = run(&["workload", "import", "--unit", "s", samples]);
    assert!(output.status.success(), "{}", complaint(&output));
    let compare = [
        "workload",
        "compare",
        "uniform(0,5) s",
        "--json",
        "--samples",
        samples,
    ];
    assert_eq!(json(&run(&compare))["fit"]["samples"], 4);

    // Without its schema it would be read as a scenario of METS, which has no such tables.
    let group = "schema = \"group/1\"\nname = \"g\"\n[session]\nprofile = \"rmtp\"\npackets = 3\n[[branch]]\nname = \"b\"\n";
    let path = folder.join("group.toml");
    fs::write(&path, format!("\u{feff}{group}")).unwrap();
    let path = path.to_str().unwrap();
    for args in [&["sim", path][..], &["sim", "--check", path]] {
        let output = run(args);
        assert!(output.status.success(), "{args:?}: {}", complaint(&output));
    }
}
