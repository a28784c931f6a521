//! Links that leave the machine follow their path by default. Skips with a printed reason where network namespaces cannot
//! be had.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::common::{folder, have_ffmpeg, real_time};
use super::failures::clip;

/// Two network namespaces with a link of 100 Mbit/s between them; the server in one, a receiver in each. Prints the statistics.
fn script(folder: &str, clip: &str, option: &str) -> String {
    format!(
        "PATH=$PATH:/usr/sbin:/sbin
         ip link set lo up || exit 77
         unshare --net sleep 60 & far=$!
         sleep 0.5
         ip link add here type veth peer name there && ip link set there netns $far || exit 77
         ip addr add 10.9.0.1/24 dev here && ip link set here up || exit 77
         nsenter -t $far --net sh -c 'ip link set lo up; ip addr add 10.9.0.2/24 dev there; ip link set there up' || exit 77
         {layercast} serve {clip} --loop --insecure --listen 10.9.0.1:7400 {option} > {folder}/url 2> {folder}/said & server=$!
         while ! [ -s {folder}/url ]; do kill -0 $server || {{ cat {folder}/said >&2; exit 1; }}; sleep 0.1; done
         nsenter -t $far --net {layercast} join layercast://10.9.0.1:7400 --name far --for 4s > /dev/null 2>&1 & first=$!
         {layercast} join layercast://10.9.0.1:7400 --name near --for 4s > /dev/null 2>&1 & second=$!
         sleep 3
         {layercast} stats layercast://10.9.0.1:7400 --json; code=$?
         wait $first && wait $second || code=1
         kill $server $far; exit $code",
        layercast = env!("CARGO_BIN_EXE_layercast"),
    )
}

#[real_time]
fn a_link_to_another_machine_is_measured_and_one_on_this_machine_is_not() {
    if !have_ffmpeg() {
        return;
    }
    let folder = folder("elsewhere");
    let clip = clip(&folder, "film.ts", 8);
    for (option, measured) in [("", true), ("--rate unlimited", false)] {
        let _ = fs::remove_file(folder.join("url"));
        let script = script(folder.to_str().expect("UTF-8"), &clip, option);
        let mut inside = Command::new("unshare");
        inside.args(["--user", "--map-root-user", "--net", "sh", "-c", &script]);
        let Ok(output) = inside.output() else {
            println!("skipped: unshare does not run");
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(77) || said.contains("unshare:") {
            println!("skipped: {}", said.trim());
            return;
        }
        assert!(output.status.success(), "{said}");
        let stats: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let links = stats["links"].as_array().expect("links");
        let path = |name: &str| {
            let link = links.iter().find(|link| link["neighbour"] == name);
            &link.unwrap_or_else(|| panic!("no link to {name}: {stats:#}"))["path"]
        };
        assert_eq!(path("far").is_object(), measured, "{option}: {stats:#}");
        assert!(path("near").is_null(), "{option}: {stats:#}");
    }
}
