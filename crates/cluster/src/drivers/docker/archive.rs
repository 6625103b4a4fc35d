//! Tar archives on their way to the engine.

use crate::ClusterError;
use futures_util::stream::{self, BoxStream, StreamExt};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// How much is read ahead: chunks, and the bytes of each.
const CHUNKS: usize = 4;
const CHUNK: usize = 256 << 10;

pub(super) type TarArchive = BoxStream<'static, io::Result<Vec<u8>>>;

pub(super) fn packed(archive: tar::Builder<Vec<u8>>) -> Result<TarArchive, ClusterError> {
    let bytes = archive.into_inner().map_err(|error| cannot_pack(&error))?;
    Ok(stream::iter([Ok(bytes)]).boxed())
}

/// The folder as an archive, all of it root's. One that ends early is an error, not an image.
pub(super) fn archive(folder: &Path) -> TarArchive {
    let (to, mut from) = mpsc::channel(CHUNKS);
    let folder = folder.to_owned();
    let packing = tokio::task::spawn_blocking(move || {
        let mut archive = tar::Builder::new(BufWriter::with_capacity(CHUNK, Chunks(to)));
        add_folder(&mut archive, &folder, Path::new("."))?;
        archive.into_inner()?.flush()
    });
    let parts = stream::poll_fn(move |context| from.poll_recv(context)).map(Ok);
    let failure = stream::once(packing)
        .filter_map(async |packed| packed.map_err(io::Error::other).and_then(|packed| packed).err().map(Err));
    parts.chain(failure).boxed()
}

struct Chunks(mpsc::Sender<Vec<u8>>);

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(bytes.to_vec());
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn add_folder(archive: &mut tar::Builder<impl Write>, folder: &Path, place: &Path) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, place) = (entry.path(), place.join(entry.file_name()));
        add(archive, &path, &place)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

fn add(archive: &mut tar::Builder<impl Write>, path: &PathBuf, place: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&found);
    header.set_uid(0);
    header.set_gid(0);
    if found.is_dir() {
        archive.append_data(&mut header, place, io::empty())?;
        add_folder(archive, path, place)
    } else if found.is_symlink() {
        header.set_size(0);
        archive.append_link(&mut header, place, fs::read_link(path)?)
    } else if found.is_file() {
        archive.append_data(&mut header, place, File::open(path)?)
    } else {
        // Sockets and pipes are of programs that run now.
        Ok(())
    }
}

pub(super) fn add_file(
    archive: &mut tar::Builder<Vec<u8>>,
    name: &str,
    text: &str,
) -> Result<(), ClusterError> {
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, text.as_bytes()).map_err(|error| cannot_pack(&error))
}

pub(super) fn cannot_pack(error: &io::Error) -> ClusterError {
    ClusterError::new(format!("cannot pack what the image is made of: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn a_folder_becomes_roots_with_its_rights_and_links() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::write(folder.path().join("bin/su"), vec![7; 600_000]).unwrap();
        fs::set_permissions(folder.path().join("bin/su"), fs::Permissions::from_mode(0o4755)).unwrap();
        std::os::unix::fs::symlink("/nowhere", folder.path().join("link")).unwrap();
        let parts: Vec<_> = archive(folder.path()).collect().await;
        let bytes: Vec<u8> = parts.into_iter().flat_map(Result::unwrap).collect();
        let mut found = Vec::new();
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let entry = entry.unwrap();
            let (path, header) = (entry.path().unwrap().display().to_string(), entry.header());
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            let link = entry.link_name().unwrap().map(|to| to.display().to_string());
            found.push((path, header.mode().unwrap() & 0o7777, header.size().unwrap(), link));
        }
        let text = str::to_owned;
        assert!(found[0].0.starts_with("./bin") || found[0].0.starts_with("bin"), "{found:?}");
        assert_eq!((found[1].1, found[1].2), (0o4755, 600_000));
        assert_eq!(found[2].3, Some(text("/nowhere")));
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_read_is_an_error_and_not_an_end() {
        let parts: Vec<_> = archive(Path::new("/nowhere/at/all")).collect().await;
        assert!(parts.last().unwrap().is_err());
    }
}
