//! Files of other forms, as the transport streams that ffmpeg makes of them without encoding.

use std::path::Path;
use std::time::Duration;

use layercast_media::{MediaError, Way};

use super::input::Input;
use super::{Feed, Ffmpeg, Plan};
use crate::args::Via;
use crate::failure::Failure;
use crate::{input, scheme};

/// First bytes of a file by which its form is detected: the headers of most containers.
const FRONT: u64 = 1 << 20;

/// For how long ffmpeg may give nothing of a file.
const SILENCE: Duration = Duration::from_secs(30);

/// What a file is.
pub enum File {
    /// A form of Layercast's own, or nothing that ffmpeg helps with: reading it says what it is.
    Own,
    /// This transport stream.
    Stored(Vec<u8>),
    /// It describes what is received.
    Session(Input),
}

/// Looks at the file at `path`, and reads it through ffmpeg if it is of another form.
///
/// # Errors
/// It cannot be read; ffmpeg is missing or fails; its video is one that a transport stream does not carry.
pub fn open(path: &Path, via: Via) -> Result<File, Failure> {
    let (way, own) = match via {
        Via::None => return Ok(File::Own),
        Via::Ffmpeg => (Way::Remux { headers: false }, None),
        Via::Auto if scheme::is_fetched(path) => (Way::Remux { headers: false }, None),
        Via::Auto => {
            let (first, _) = input::begin(path, FRONT)?;
            match layercast_media::recognise(&first) {
                Err(error @ MediaError::Foreign { remedy, .. }) => (remedy.way(), Some(error)),
                _ => return Ok(File::Own),
            }
        }
    };
    let headers = match way {
        Way::None => return Ok(File::Own),
        Way::Session => return Ok(File::Session(Input::session(path))),
        Way::Remux { headers } => headers,
        Way::Unknown => false,
    };
    let name = path.display();
    let ffmpeg = Ffmpeg::find(&name.to_string())?;
    let mut read = Input::new(path);
    read.headers = headers;
    let (feed, control) = Feed::new(Plan {
        ffmpeg,
        input: read,
        args: None,
        stdin: None,
        patience: Duration::ZERO,
        silence: Some(SILENCE),
    });
    let read = input::all_of(path, Box::new(feed));
    match (control.failure(), own) {
        (Some(_), Some(own)) if way == Way::Unknown => {
            return Err(Failure::new(format!("{name}: {own}")));
        }
        (Some(failure), _) => return Err(failure),
        (None, _) => {}
    }
    let bytes = read?;
    not_carried(&name.to_string(), &control.foreign_codecs())?;
    Ok(File::Stored(bytes))
}

/// Whether the first bytes of a pipe are those of another form that ffmpeg reads.
pub fn is_readable(first: &[u8]) -> bool {
    match layercast_media::recognise(first) {
        Err(MediaError::Foreign { remedy, .. }) => matches!(remedy.way(), Way::Remux { .. }),
        _ => false,
    }
}

/// Codecs of sound, as ffmpeg names them, that a transport stream does not carry; pcm_* are such, too.
const SOUND: [&str; 8] = [
    "vorbis", "flac", "alac", "wmav2", "wmapro", "amr_nb", "amr_wb", "speex",
];

/// Says which `codecs` of the input `name` a transport stream does not carry: sound is left out by players, and without video
/// nothing is to be served.
pub fn not_carried(name: &str, codecs: &[String]) -> Result<(), Failure> {
    let is_sound = |codec: &&String| codec.starts_with("pcm_") || SOUND.contains(&codec.as_str());
    if let Some(codec) = codecs.iter().find(|codec| !is_sound(codec)) {
        return Err(Failure::new(format!(
            "{name}: its video is {codec}, which a transport stream does not carry so that players understand it"
        ))
        .hint(format!(
            "encode it: ffmpeg -i '{name}' -c:v libx264 -g 25 -bf 2 -c:a aac -f mpegts - | layercast serve -"
        )));
    }
    if let Some(codec) = codecs.first() {
        eprintln!(
            "{name}: its sound is {codec}, which players do not find in a transport stream; encode it for them: ffmpeg -i \
             '{name}' -c:v copy -c:a aac -f mpegts CLIP.ts"
        );
    }
    Ok(())
}
