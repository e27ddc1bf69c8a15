export type User = {
    id: string;
    email: string;
    name: string;
    role: string;
    createdAt: string;
};
export type Session = {
    id: string;
    createdAt: string;
    lastUsedAt: string;
    expiresAt: string;
    userAgent: string;
    ip: string;
    current: boolean;
};
export type TokenStorage = {
    read: () => Promise<string | null>;
    write: (refreshToken: string | null) => Promise<void>;
};
export type Data = {
    user: User;
    accessToken: string;
    refreshToken?: string;
    expiresIn: number;
    sessions: Session[];
    next?: string;
};
export type Envelope = {
    data: Data;
    error?: {
        code: string;
        message: string;
        reason?: string;
    };
};
export type Call = {
    method: string;
    path: string;
    body?: object;
    headers?: Record<string, string>;
};
/** A failure that the service answered with; status 0 if it did not answer. */
export declare class LoginError extends Error {
    code: string;
    status: number;
    retryAfterSeconds: number | null;
    reason: string | null;
    /**
     * @param {string} code
     * @param {string} message
     * @param {number} status
     * @param {number | null} retryAfterSeconds
     * @param {string | null} reason what is wrong with a new password, such as too_short
     */
    constructor(code: string, message: string, status: number, retryAfterSeconds?: number | null, reason?: string | null);
}
export declare class LoginClient {
    #private;
    /**
     * @param {string} baseUrl such as https://login.example.com
     * @param {{ cookie?: boolean, storage?: TokenStorage }} options
     */
    constructor(baseUrl: string, { cookie, storage }?: {
        cookie?: boolean;
        storage?: TokenStorage;
    });
    /** The user of the last answer; null before a login or restore(), and after the session has ended. */
    get user(): User | null;
    /**
     * @param {string} email
     * @param {string} password
     */
    login(email: string, password: string): Promise<User>;
    /**
     * A login that also replaces the password. All other sessions of the user end. It is the only use of a temporary
     * password, for which login() fails with PASSWORD_CHANGE_REQUIRED.
     * @param {string} email
     * @param {string} currentPassword
     * @param {string} newPassword
     */
    changePassword(email: string, currentPassword: string, newPassword: string): Promise<User>;
    /**
     * A login with the code that the login page has added to your address. `verifier` is the text whose SHA-256 was the
     * `challenge`. Never call it with a code that this browser did not ask for.
     * @param {string} code
     * @param {string} verifier
     */
    redeem(code: string, verifier: string): Promise<User>;
    /** Continues a session from before a restart or a reload of the page; null if there is none, or another user’s. */
    restore(): Promise<User | null>;
    /** A token that does not expire soon. Parallel calls share one refresh. */
    accessToken(): Promise<string>;
    /** All live sessions of the user. */
    sessions(): Promise<Session[]>;
    /** @param {string} id */
    endSession(id: string): Promise<void>;
    logout(): Promise<void>;
    /** Ends all sessions of the user, this one last. Services accept access tokens until they expire. */
    logoutEverywhere(): Promise<void>;
}
