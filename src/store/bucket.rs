//! A prefix in an object store that holds folders. The crate retries requests, with growing pauses.

use super::marker::{FileFacts, MARKER, Marker};
use super::patience::Patience;
use anyhow::{Context, Result, anyhow, bail};
use fencepost_engine::{BadUsage, refuse};
use fencepost_history::run::open_regular;
use fencepost_history::{FILE_BYTES_MAX, too_long};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::buffered::BufWriter;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, Error, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutPayload, RetryConfig,
};
use std::path::Path;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use url::Url;

const SIDE_BY_SIDE: usize = 8;

pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    address: String,
    prefix: ObjectPath,
}

impl Bucket {
    /// Credentials are the environment's. Errors: no address of a store, or credentials in it. Asks nothing.
    pub fn open(address: &str, patience: Patience) -> Result<Bucket> {
        let invalid = |why: &str| {
            BadUsage::new(format!(
                "invalid address of an object store {address:?}: {why}; expected s3://BUCKET/PREFIX, gs://…, az://… or file:///FOLDER"
            ))
        };
        let url: Url = address.parse().map_err(|_| invalid("it cannot be read"))?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            refuse!(
                "invalid address of an object store: it bears credentials or options; give them in the environment, such as \
                 AWS_ACCESS_KEY_ID"
            );
        }
        let (scheme, prefix) = ObjectStoreScheme::parse(&url).map_err(|error| invalid(&error.to_string()))?;
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: usize::MAX,
            retry_timeout: patience.time(),
        };
        let store = connect(&scheme, &url, retry).map_err(|error| invalid(&error.to_string()))?;
        let store = store.ok_or_else(|| invalid("there is no such kind of store"))?;
        Ok(Bucket { store, address: address.trim_end_matches('/').to_owned(), prefix })
    }

    /// Writes an object and removes it again. Errors: the store does not answer or refuses.
    pub async fn check_writable(&self) -> Result<()> {
        let at = self.object(&format!(".fencepost-{}-{:016x}", std::process::id(), rand::random::<u64>()));
        let tried = async {
            self.store
                .put(&at, PutPayload::from_static(b"Fencepost looks whether it can write here"))
                .await?;
            self.store.delete(&at).await
        };
        tried.await.map_err(|error| self.cannot("write to", "", &error))
    }

    /// Sends a folder under this name, its marker last. False: it is there. Errors: no marker is written.
    pub async fn send(&self, folder: &Path, name: &str) -> Result<bool> {
        let marker = tokio::task::spawn_blocking({
            let folder = folder.to_owned();
            move || Marker::of(&folder)
        });
        let marker = marker.await??;
        match self.read(&format!("{name}/{MARKER}")).await {
            Ok(json) if Marker::parse(&json).is_ok_and(|there| there == marker) => return Ok(false),
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(self.cannot("write to", "", &error)),
        }
        // A folder that was sent before and has changed: readers must not take it until it is whole again.
        self.delete(&format!("{name}/{MARKER}")).await?;
        side_by_side(marker.files.keys().map(|file| self.send_file(folder, name, file).boxed()).collect())
            .await?;
        let put = self.store.put(&self.object(&format!("{name}/{MARKER}")), marker.json().into()).await;
        put.map_err(|error| self.cannot("write", name, &error))?;
        Ok(true)
    }

    async fn send_file(&self, folder: &Path, name: &str, file: &str) -> Result<()> {
        let path = folder.join(file);
        let source = open_regular(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut source = tokio::fs::File::from_std(source);
        let object = format!("{name}/{file}");
        // A large file goes in several parts, so that it need not fit into the memory.
        let mut target = BufWriter::new(self.store.clone(), self.object(&object));
        let sent = async {
            tokio::io::copy(&mut source, &mut target).await?;
            target.shutdown().await
        };
        sent.await.map_err(|error| match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(refused) => self.cannot("write", &object, refused),
            None => anyhow!("cannot write {}/{object}: {error}", self.address),
        })
    }

    /// The folders that lie there whole, with their markers. Errors: the store does not answer, or refuses.
    pub async fn list(&self) -> Result<Vec<(String, Marker)>> {
        let listed = self.store.list_with_delimiter(Some(&self.prefix)).await;
        let listed = listed.map_err(|error| self.cannot("list", "", &error))?;
        let names = listed.common_prefixes.into_iter().filter_map(|path| Some(path.filename()?.to_owned()));
        let marked = |name: String| {
            async move { anyhow::Ok(self.marker(&name).await?.map(|marker| (name, marker))) }.boxed()
        };
        Ok(side_by_side(names.map(marked).collect()).await?.into_iter().flatten().collect())
    }

    /// The marker of the prefix itself, if that is a folder that was sent. Errors: as [`Bucket::list`].
    pub async fn own_marker(&self) -> Result<Option<Marker>> {
        self.marker("").await
    }

    async fn marker(&self, name: &str) -> Result<Option<Marker>> {
        let object = if name.is_empty() { MARKER.to_owned() } else { format!("{name}/{MARKER}") };
        match self.read(&object).await {
            Ok(json) => Marker::parse(&json).with_context(|| format!("{}/{object}", self.address)).map(Some),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.cannot("read", &object, &error)),
        }
    }

    async fn read(&self, object: &str) -> object_store::Result<Vec<u8>> {
        let mut stream = self.store.get(&self.object(object)).await?.into_stream();
        let mut content = Vec::new();
        while let Some(piece) = stream.next().await {
            content.extend_from_slice(&piece?);
            if content.len() as u64 > FILE_BYTES_MAX {
                let source = too_long("it", FILE_BYTES_MAX).into();
                return Err(Error::Generic { store: "the store", source });
            }
        }
        Ok(content)
    }

    /// Fetches a folder's files, or the prefix's. Errors: no answer, or unlike the marker: do not use it.
    pub async fn fetch(&self, name: &str, marker: &Marker, folder: &Path) -> Result<()> {
        let files = marker.files.iter();
        side_by_side(files.map(|(file, facts)| self.fetch_file(name, file, facts, folder).boxed()).collect())
            .await?;
        Ok(())
    }

    async fn fetch_file(&self, name: &str, file: &str, facts: &FileFacts, folder: &Path) -> Result<()> {
        let (object, path) = (format!("{name}/{file}"), folder.join(file));
        let cannot_write = || format!("cannot write {}", path.display());
        if let Some(parent) = path.parent() {
            tokio::fs::create_dir_all(parent).await.with_context(cannot_write)?;
        }
        let found = self.store.get(&self.object(&object)).await;
        let mut stream = found.map_err(|error| self.cannot("read", &object, &error))?.into_stream();
        let mut target = tokio::fs::File::create(&path).await.with_context(cannot_write)?;
        let mut length = 0;
        while let Some(bytes) = stream.next().await {
            let bytes = bytes.map_err(|error| self.cannot("read", &object, &error))?;
            target.write_all(&bytes).await.with_context(cannot_write)?;
            length += bytes.len() as u64;
            // More than was sent must not fill the disk.
            if length > facts.bytes {
                break;
            }
        }
        target.flush().await.with_context(cannot_write)?;
        match FileFacts::of(&path)? == *facts {
            true => Ok(()),
            false => bail!(
                "{}/{object} is not what its marker says: it was changed after it was sent; send the run again",
                self.address
            ),
        }
    }

    /// Removes a folder, its marker first. Errors: the store does not answer, or refuses.
    pub async fn remove(&self, name: &str) -> Result<()> {
        self.delete(&format!("{name}/{MARKER}")).await?;
        let all: Vec<_> = self
            .store
            .list(Some(&self.object(name)))
            .try_collect()
            .await
            .map_err(|error| self.cannot("list", name, &error))?;
        for found in all {
            let deleted = self.store.delete(&found.location).await;
            deleted.map_err(|error| self.cannot("remove", name, &error))?;
        }
        Ok(())
    }

    async fn delete(&self, object: &str) -> Result<()> {
        match self.store.delete(&self.object(object)).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.cannot("remove", object, &error)),
        }
    }

    fn object(&self, name: &str) -> ObjectPath {
        let parts = name.split('/').filter(|part| !part.is_empty());
        parts.fold(self.prefix.clone(), |path, part| path.join(part))
    }

    fn cannot(&self, verb: &str, object: &str, error: &Error) -> anyhow::Error {
        let slash = if object.is_empty() { "" } else { "/" };
        anyhow!("cannot {verb} {}{slash}{object}: {}", self.address, reason(error))
    }
}

/// Why a request failed, and what to do. The crate's own text holds the whole request and the answer.
fn reason(error: &Error) -> String {
    /// Where the crate asks a machine of a cloud for credentials, when the environment has none.
    const CREDENTIALS_OF_THE_MACHINE: &str = "169.254.169.254";
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match error {
        Error::NotFound { .. } => {
            "there is no such bucket, or what lay in it is gone; is the address right?".to_owned()
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            "the store refuses these credentials; do they belong to it, may they list, read, write and remove there, and is the clock of \
             this machine right?"
                .to_owned()
        }
        _ if error.to_string().contains(CREDENTIALS_OF_THE_MACHINE) => {
            "there are no credentials; give them in the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".to_owned()
        }
        _ => {
            let text = innermost.to_string();
            text.lines().next().unwrap_or("no reason given").to_owned()
        }
    }
}

/// Carries out several at once. The first that fails ends them all.
async fn side_by_side<T>(requests: Vec<BoxFuture<'_, Result<T>>>) -> Result<Vec<T>> {
    futures_util::stream::iter(requests).buffer_unordered(SIDE_BY_SIDE).try_collect().await
}

fn connect(
    scheme: &ObjectStoreScheme,
    url: &Url,
    retry: RetryConfig,
) -> object_store::Result<Option<Arc<dyn ObjectStore>>> {
    Ok(match scheme {
        ObjectStoreScheme::Local => Some(Arc::new(LocalFileSystem::new())),
        ObjectStoreScheme::AmazonS3 => {
            let builder = AmazonS3Builder::from_env().with_url(url.as_str()).with_retry(retry);
            Some(Arc::new(builder.build()?))
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(url.as_str()).with_retry(retry);
            Some(Arc::new(builder.build()?))
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(url.as_str()).with_retry(retry);
            Some(Arc::new(builder.build()?))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn run_in(folder: &Path) -> std::path::PathBuf {
        let run = folder.join("run");
        fs::create_dir_all(run.join("logs")).unwrap();
        fs::write(run.join("run.toml"), "seed = 7").unwrap();
        fs::write(run.join("logs/n 1.log"), vec![7; 100_000]).unwrap();
        run
    }

    fn bucket(folder: &Path) -> Bucket {
        fs::create_dir_all(folder.join("there")).unwrap();
        Bucket::open(&format!("file://{}/there/", folder.display()), Patience::Short).unwrap()
    }

    #[tokio::test]
    async fn a_marker_and_a_file_that_are_too_long_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (run, bucket) = (run_in(folder.path()), bucket(folder.path()));
        bucket.send(&run, "run").await.unwrap();
        let marker = bucket.list().await.unwrap().remove(0).1;
        let lengthen = |file: &str| {
            let opened = fs::File::options().write(true).open(folder.path().join("there/run").join(file));
            opened.unwrap().set_len(1 << 40).unwrap();
        };
        lengthen("run.toml");
        let back = folder.path().join("back");
        let refused = bucket.fetch("run", &marker, &back).await.unwrap_err().to_string();
        assert!(refused.contains("run.toml is not what its marker says"), "{refused}");
        assert!(
            fs::metadata(back.join("run.toml")).unwrap().len() < 1 << 20,
            "no more is brought than was sent"
        );
        lengthen(MARKER);
        let refused = bucket.list().await.unwrap_err().to_string();
        assert!(refused.contains("it is longer than 64 MiB, which is the limit"), "{refused}");
    }

    #[tokio::test]
    async fn what_is_sent_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (run, bucket) = (run_in(folder.path()), bucket(folder.path()));
        bucket.check_writable().await.unwrap();
        assert!(bucket.send(&run, "run").await.unwrap());
        assert!(!bucket.send(&run, "run").await.unwrap(), "it lies there already");
        let listed = bucket.list().await.unwrap();
        assert_eq!(listed, [("run".to_owned(), Marker::of(&run).unwrap())]);
        let back = folder.path().join("back");
        bucket.fetch("run", &listed[0].1, &back).await.unwrap();
        assert_eq!(Marker::of(&back).unwrap(), listed[0].1);
        bucket.remove("run").await.unwrap();
        assert_eq!(bucket.list().await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_folder_without_its_marker_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let (run, bucket) = (run_in(folder.path()), bucket(folder.path()));
        bucket.send(&run, "run").await.unwrap();
        fs::remove_file(folder.path().join("there/run").join(MARKER)).unwrap();
        assert_eq!(bucket.list().await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_file_that_is_not_what_the_marker_says_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (run, bucket) = (run_in(folder.path()), bucket(folder.path()));
        bucket.send(&run, "run").await.unwrap();
        fs::write(folder.path().join("there/run/run.toml"), "seed = 8").unwrap();
        let marker = Marker::of(&run).unwrap();
        let error = bucket.fetch("run", &marker, &folder.path().join("back")).await.unwrap_err().to_string();
        assert!(error.contains("run/run.toml is not what its marker says"), "{error}");
    }

    #[test]
    fn addresses_with_credentials_and_of_no_store_are_refused() {
        let refusal = |address| Bucket::open(address, Patience::Short).err().unwrap().to_string();
        assert!(refusal("s3://key:secret@bucket/runs").contains("bears credentials"));
        assert!(!refusal("s3://key:secret@bucket/runs").contains("secret"));
        assert!(refusal("ftp://server/runs").contains("expected s3://BUCKET/PREFIX"));
    }
}
