#!/bin/sh
# Compiles the manifests as a build of an app does. Needs Debian's packages aapt, android-framework-res and unzip.
set -eu
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for app in weather notes locked hostile; do
  cp "$app.xml" "$folder/AndroidManifest.xml"
  aapt package -f -M "$folder/AndroidManifest.xml" -I /usr/share/android-framework-res/framework-res.apk -F "$folder/app.apk"
  # aapt checks authorities. An attacker does not: this one becomes a command of the shell, in UTF-16 as the other strings.
  unzip -p "$folder/app.apk" AndroidManifest.xml | node -e '
    const wide = (text) => Buffer.from(text, "utf16le").toString("latin1");
    const forged = require("fs").readFileSync(0, "latin1").replace(wide("x__reboot_______reboot__reboot__"), () => wide("x\u0027 & reboot & \u0027$(reboot)`reboot`"));
    process.stdout.write(Buffer.from(forged, "latin1"));' >"$app.axml"
done
