#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| layercast_fuzz::sync_index::sync_index(data));
