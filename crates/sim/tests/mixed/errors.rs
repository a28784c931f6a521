//! What is wrong with `[mets]`, where, and what would do.

use layercast_sim::internet::Internet;

use crate::common::*;

const NETWORK: &str = r#"schema = "internet/1"
name = "wrong"
run = { duration = "10s" }
host = [{ name = "a" }, { name = "b" }, { name = "c" }, { name = "d" }]
router = [{ name = "r" }, { name = "s" }]
link = [
    { ends = ["a", "r"], rate = "10 Mbit/s", delay = "1ms" },
    { ends = ["b", "r"], rate = "10 Mbit/s", delay = "1ms", back = { rate = "1 Mbit/s" } },
    { ends = ["c", "s"], rate = "10 Mbit/s", delay = "1ms" },
    { ends = ["r", "d"], rate = "10 Mbit/s", delay = "1ms", red = { min = 5, max = 15 } },
]
"#;

fn said(mets: &str) -> String {
    error(&format!("{NETWORK}\n[mets]\n{mets}\n")).to_string()
}

#[test]
fn errors_name_the_field_of_the_file_and_the_remedy() {
    let film = r#"flow = [{ name = "film", source = "a", clip = { synthetic = "canyon" }, frame_rate = 24, start = "1s" }]"#;
    let peerings = r#"peering = [{ ends = ["a", "b"], rate = "5 Mbit/s" }]"#;
    for (mets, parts) in [
        ("", &["mets.peering: it is missing", "[[mets.peering]]"][..]),
        (
            r#"peering = [{ ends = ["a", "x"] }]"#,
            &[
                "line 14",
                "mets.peering[0].ends[1]: there is no host or router \"x\"",
            ],
        ),
        (
            r#"peering = [{ ends = ["a", "b"] }]"#,
            &[
                "mets.peering[0].rate: it is missing",
                "such as rate = \"8 Mbit/s\"",
            ],
        ),
        (
            // Its link has two rates.
            r#"peering = [{ ends = ["b", "r"] }]"#,
            &[
                "mets.peering[0].rate: it is missing",
                "one rate for both directions",
            ],
        ),
        (
            r#"peering = [{ ends = ["a", "b"], rate = "auto" }]"#,
            &["mets.peering[0].repair: it is missing; rate = \"auto\" needs repair = true"],
        ),
        (
            r#"peering = [{ ends = ["a", "b"], rate = "fast" }]"#,
            &["mets.peering[0].rate: ", "\"auto\""],
        ),
        (
            r#"peering = [{ ends = ["a", "c"], rate = "5 Mbit/s" }]"#,
            &["mets.peering[0].ends: no way leads from \"a\" to \"c\""],
        ),
        (
            r#"peering = [{ ends = ["a", "r"], queue = "0 cells" }]"#,
            &["mets.peering[0].queue: it is 0 cells; expected 1 to 1048576 cells"],
        ),
        (
            r#"peering = [{ ends = ["a", "r"] }, { ends = ["r", "a"] }]"#,
            &["mets.peering[1]: link \"r-a\" is there already"],
        ),
        (
            &format!("{peerings}\n{film}\nreceiver = [{{ node = \"d\", flow = \"film\" }}]"),
            &["mets.receiver[0].node: there is no node \"d\""],
        ),
        (
            &format!("{peerings}\n{film}\nreceiver = [{{ node = \"b\", flow = \"flim\" }}]"),
            &["mets.receiver[0].flow: there is no flow \"flim\"; did you mean \"film\"?"],
        ),
        (
            &format!(
                "peering = [{{ ends = [\"a\", \"r\"], rate = \"5 Mbit/s\" }}, {{ ends = [\"r\", \"b\"], rate = \"5 Mbit/s\" }}]\n{film}\nreceiver = [{{ node = \"b\", flow = \"film\" }}]"
            ),
            // r is no switch here.
            &["mets.receiver[0].flow: no peerings through METS switches lead from \"a\" to \"b\""],
        ),
        (
            &format!("{peerings}\nera = \"0s\"\n{film}"),
            &["mets.era: it is 0s; expected 1ms to 24h"],
        ),
        (
            &format!("{peerings}\n{}", film.replace("1s", "11s")),
            &["mets.flow[0].start: it is 11s; expected before the end of the run"],
        ),
    ] {
        let said = said(mets);
        for part in parts {
            assert!(said.contains(part), "{mets}\nsaid: {said}\nwanted: {part}");
        }
    }
}

#[test]
fn a_class_queue_needs_a_link_of_its_own_kind() {
    for ends in [r#"["a", "b"]"#, r#"["r", "d"]"#] {
        let text = format!(
            "{NETWORK}\n[mets]\npeering = [{{ ends = {ends}, rate = \"5 Mbit/s\", class_queue = true }}]\n"
        );
        let said = error(&text).to_string();
        let wanted = "mets.peering[0].class_queue: ";
        assert!(said.contains(wanted), "{said}");
        assert!(said.contains("without RED"), "{said}");
    }
    let text =
        format!("{NETWORK}\n[mets]\npeering = [{{ ends = [\"a\", \"r\"], class_queue = true }}]\n");
    let scenario = layercast_sim::internet::scenario::Scenario::from_toml(&text, &scenarios());
    let network = scenario.unwrap().resolve().unwrap();
    assert!(Internet::new(&network).is_ok());
}

#[test]
fn a_node_is_not_both_a_program_and_of_mets() {
    let text = format!(
        "{NETWORK}\nattach = [{{ node = \"a\", kind = \"tun\", device = \"lc0\" }}]\n[mets]\npeering = [{{ ends = [\"a\", \"b\"], rate = \"5 Mbit/s\" }}]\n"
    );
    let said = error(&text).to_string();
    assert!(
        said.contains("attach[0].node: [mets] uses the host \"a\""),
        "{said}"
    );
}
