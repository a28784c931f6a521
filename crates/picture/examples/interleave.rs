//! PSNR after lost cells of a raw picture, in scan order and interleaved: `interleave WIDTH HEIGHT FILE [BEFORE]`, with pictures of
//! three octets a pixel. Prints JSON: for bursts of 1 to 32 cells in every tenth group.

use std::error::Error;
use std::{env, fs};

use layercast_picture::study::BlockSetting;
use layercast_picture::{BlockOrder, GROUP_CELLS, Raster};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [width, height, files @ ..] = &args[..] else {
        return Err("usage: interleave WIDTH HEIGHT FILE [BEFORE]".into());
    };
    let (width, height) = (width.parse()?, height.parse()?);
    let read = |file: &String| -> Result<Raster, Box<dyn Error>> {
        let picture = Raster::new(width, height, &fs::read(file)?);
        picture.ok_or_else(|| {
            format!("{file} is no picture of {width} x {height} pixels of 3 octets").into()
        })
    };
    let whole = read(files.first().ok_or("a picture is missing")?)?;
    let before = files.get(1).map(read).transpose()?;
    let mut rows = Vec::new();
    for burst in 1..=GROUP_CELLS {
        let psnr = |order| {
            let setting = BlockSetting {
                order,
                burst,
                seed: 1,
            };
            Ok::<_, Box<dyn Error>>(setting.run(&whole, before.as_ref())?.0.psnr_db)
        };
        rows.push(json!({
            "burst": burst,
            "scan_db": psnr(BlockOrder::Scan)?,
            "interleaved_db": psnr(BlockOrder::Interleaved)?,
        }));
    }
    println!("{}", serde_json::to_string_pretty(&rows)?);
    Ok(())
}
