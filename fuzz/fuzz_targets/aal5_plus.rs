#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| layercast_fuzz::picture::aal5_plus(data));
