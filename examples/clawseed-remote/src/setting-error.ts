/** A mistake in a setting. Its message is all that the user sees. */
export class SettingError extends Error {}
