//! Writes the seeds of the fuzz corpus for the daemon of XTP: what clients say, and each with one thing wrong.
//!
//! `cargo run -p layercast-xtp --example xtpd_corpus -- fuzz/corpus`

#[path = "../tests/xtp/remote/samples.rs"]
mod samples;
#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

fn main() -> std::io::Result<()> {
    seeds::write("xtpd", samples::conversations())
}
