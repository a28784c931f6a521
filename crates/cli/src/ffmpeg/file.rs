//! Files of other forms, as the transport streams or IVF that ffmpeg makes of them without encoding.

use std::io::{Cursor, Read};
use std::path::Path;
use std::time::Duration;

use layercast_media::{MediaError, Way};

use super::input::Input;
use super::{Control, Feed, Ffmpeg, Plan};
use crate::args::Via;
use crate::failure::Failure;
use crate::{input, scheme};

/// First bytes of a file by which its form is detected: the headers of most containers.
pub const FRONT: u64 = 1 << 20;

/// For how long ffmpeg may give nothing of a file.
const SILENCE: Duration = Duration::from_secs(30);

/// What a file is.
pub enum File {
    /// A form of Layercast's own, or nothing that ffmpeg helps with: reading it says what it is.
    Own,
    /// This transport stream, or IVF.
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
        Way::Ivf | Way::Unknown => false,
    };
    let name = path.display().to_string();
    let ffmpeg = Ffmpeg::find(&name)?;
    let mut input = Input::new(path);
    (input.headers, input.is_bare) = (headers, way == Way::Ivf);
    if let Some(MediaError::Foreign { remedy, .. }) = &own
        && input.is_bare
    {
        tell_silence(
            &name,
            remedy.codec.unwrap_or("of another codec"),
            remedy.has_sound,
        );
    }
    let (read, control) = remuxed(path, ffmpeg.clone(), input.clone());
    match (control.failure(), own) {
        (Some(_), Some(own)) if way == Way::Unknown => {
            return Err(Failure::new(format!("{name}: {own}")));
        }
        (Some(failure), _) => return Err(failure),
        (None, _) => {}
    }
    let foreign = control.foreign_codecs();
    if let Some(codec) = foreign.iter().find(|it| IN_IVF.contains(&it.as_str())) {
        tell_silence(&name, &codec.to_uppercase(), true);
        input.is_bare = true;
        let (read, control) = remuxed(path, ffmpeg, input);
        return match control.failure() {
            Some(failure) => Err(failure),
            None => Ok(File::Stored(stored(&name, read?, &control))),
        };
    }
    not_carried(&name, &foreign)?;
    Ok(File::Stored(stored(&name, read?, &control)))
}

/// What ffmpeg made of a file, and a word if that ends inside a packet.
fn stored(name: &str, read: Vec<u8>, control: &Control) -> Vec<u8> {
    if let Some(torn) = control.torn(name) {
        eprintln!("{torn}");
    }
    read
}

/// All of a pipe, of which `first` came before `rest`: what ffmpeg makes of another form than Layercast's own, if `via` allows that.
///
/// # Errors
/// It cannot be read or has no end; ffmpeg is missing or fails.
pub fn all_of_pipe(
    path: &Path,
    first: Vec<u8>,
    rest: Box<dyn Read + Send>,
    via: Via,
) -> Result<Vec<u8>, Failure> {
    let name = input::name(path);
    let foreign = is_bare(&first);
    let is_through = via == Via::Ffmpeg || via == Via::Auto && foreign.is_some();
    if !is_through {
        return input::rest(path, first, rest);
    }
    let mut input = Input::piped(&name);
    input.is_bare = foreign == Some(true);
    if let Some(said) = silence_of(&name, &first) {
        eprintln!("{said}");
    }
    let (feed, control) = Feed::new(Plan {
        ffmpeg: Ffmpeg::find(&name)?,
        input,
        args: None,
        stdin: Some(Box::new(Cursor::new(first).chain(rest))),
        patience: Duration::ZERO,
        // The writer of the pipe may take any time.
        silence: None,
    });
    let read = input::all_of(path, Box::new(feed));
    if let Some(failure) = control.failure() {
        return Err(failure);
    }
    not_carried(&name, &control.foreign_codecs())?;
    Ok(stored(&name, read?, &control))
}

/// All that ffmpeg makes of a file.
fn remuxed(path: &Path, ffmpeg: Ffmpeg, input: Input) -> (Result<Vec<u8>, Failure>, Control) {
    let (feed, control) = Feed::new(Plan {
        ffmpeg,
        input,
        args: None,
        stdin: None,
        patience: Duration::ZERO,
        silence: Some(SILENCE),
    });
    (input::all_of(path, Box::new(feed)), control)
}

/// Codecs, as ffmpeg names them, that IVF carries.
const IN_IVF: [&str; 3] = ["av1", "vp8", "vp9"];

/// Says that the sound of an input is left out, if it has or may have some.
fn tell_silence(name: &str, codec: &str, may_sound: bool) {
    if may_sound {
        eprintln!("{}", silence(name, codec));
    }
}

/// What encodes an input and serves it.
fn encoding(name: &str) -> String {
    format!("ffmpeg -i '{name}' -c:v libx264 -g 25 -bf 2 -c:a aac -f mpegts - | layercast serve -")
}

/// That the sound of an input is left out, and what keeps it.
fn silence(name: &str, codec: &str) -> String {
    format!(
        "{name}: its video is {codec}, which is served without sound: no transport stream carries it so that players understand \
         it. With its sound, encoded: {}",
        encoding(name)
    )
}

/// How ffmpeg reads an input that begins with these bytes, if it does: into IVF if `true`.
pub fn is_bare(first: &[u8]) -> Option<bool> {
    match layercast_media::recognise(first) {
        Err(MediaError::Foreign { remedy, .. }) => match remedy.way() {
            Way::Remux { .. } => Some(false),
            Way::Ivf => Some(true),
            _ => None,
        },
        _ => None,
    }
}

/// What is to be said of an input that begins with these bytes and of which only the video is served.
pub fn silence_of(name: &str, first: &[u8]) -> Option<String> {
    match layercast_media::recognise(first) {
        Err(MediaError::Foreign { remedy, .. }) if remedy.way() == Way::Ivf && remedy.has_sound => {
            Some(silence(name, remedy.codec?))
        }
        _ => None,
    }
}

/// The same of an input with these codecs, as ffmpeg names them.
pub fn silence_of_codecs(name: &str, codecs: &[String]) -> Option<String> {
    let codec = codecs.iter().find(|it| IN_IVF.contains(&it.as_str()))?;
    Some(silence(name, &codec.to_uppercase()))
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
        .hint(match IN_IVF.contains(&codec.as_str()) {
            true => format!(
                "without sound it is served as it is: ffmpeg -i '{name}' -an -c copy -f ivf - | layercast serve -; with sound, \
                 encode it: {}",
                encoding(name)
            ),
            false => format!("encode it: {}", encoding(name)),
        }));
    }
    if let Some(codec) = codecs.first() {
        eprintln!(
            "{name}: its sound is {codec}, which players do not find in a transport stream; encode it for them: ffmpeg -i \
             '{name}' -c:v copy -c:a aac -f mpegts CLIP.ts"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_is_left_out_where_there_is_some() {
        let webm = |codecs: &[&[u8]]| {
            let mut bytes = b"\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm".to_vec();
            bytes.extend(codecs.concat());
            bytes.resize(4_096, 0);
            bytes
        };
        assert_eq!(silence_of("-", &webm(&[b"V_VP9"])), None);
        let said = silence_of("-", &webm(&[b"V_VP9", b"A_OPUS"])).expect("a note");
        assert!(
            said.contains("VP9, which is served without sound"),
            "{said}"
        );
    }
}
