//! The committed header is what cbindgen makes of the sources.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_header_is_up_to_date() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_crate(here)
        .with_config(config)
        .generate()
        .expect("cbindgen reads the crate")
        .write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = here.join("include/layercast.h");
    if env::var_os("LAYERCAST_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        made == committed,
        "include/layercast.h is not what the sources say: \
         LAYERCAST_BLESS=1 cargo test -p layercast-c --test header writes it again"
    );
}
