(* Finite sums of reals, and vectors as functions on 0, ..., d - 1. *)
Require Export Reals List Lia Lra Arith Psatz.
Open Scope R_scope.

Fixpoint sum (n : nat) (f : nat -> R) : R :=
  match n with O => 0 | S k => sum k f + f k end.

Lemma sum_ext n f g : (forall i, (i < n)%nat -> f i = g i) -> sum n f = sum n g.
Proof. induction n; intro H; simpl; [easy|]. rewrite IHn, H; auto. Qed.

Lemma sum_le n f g : (forall i, (i < n)%nat -> f i <= g i) -> sum n f <= sum n g.
Proof.
  induction n; intro H; simpl; [lra|].
  apply Rplus_le_compat; [apply IHn; auto | apply H; lia].
Qed.

Lemma sum_zero n : sum n (fun _ => 0) = 0.
Proof. induction n; simpl; lra. Qed.

Lemma sum_const n c : sum n (fun _ => c) = INR n * c.
Proof. induction n; [simpl; lra|]. rewrite S_INR; simpl sum; lra. Qed.

Lemma sum_nonneg n f : (forall i, (i < n)%nat -> 0 <= f i) -> 0 <= sum n f.
Proof. intro H. rewrite <- (sum_zero n). now apply sum_le. Qed.

Lemma sum_nonpos n f : (forall i, (i < n)%nat -> f i <= 0) -> sum n f <= 0.
Proof. intro H. rewrite <- (sum_zero n). now apply sum_le. Qed.

Lemma sum_plus n f g : sum n (fun i => f i + g i) = sum n f + sum n g.
Proof. induction n; simpl; lra. Qed.

Lemma sum_scal n c f : sum n (fun i => c * f i) = c * sum n f.
Proof. induction n; simpl; lra. Qed.

Lemma sum_minus n f g : sum n (fun i => f i - g i) = sum n f - sum n g.
Proof. induction n; simpl; lra. Qed.

Lemma sum_swap n k (f : nat -> nat -> R) :
  sum n (fun i => sum k (fun j => f i j)) = sum k (fun j => sum n (fun i => f i j)).
Proof. induction n; simpl; [now rewrite sum_zero|]. now rewrite IHn, sum_plus. Qed.

Lemma sum_app n k f : sum (n + k) f = sum n f + sum k (fun i => f (n + i)%nat).
Proof.
  induction k; simpl; [rewrite Nat.add_0_r; lra|].
  rewrite Nat.add_succ_r; simpl; lra.
Qed.

Lemma sum_term n f j : (forall i, (i < n)%nat -> 0 <= f i) -> (j < n)%nat -> f j <= sum n f.
Proof.
  induction n; intros H J; [lia|]; simpl.
  assert (0 <= sum n f) by (apply sum_nonneg; auto).
  destruct (Nat.eq_dec j n) as [->|N]; [lra|].
  assert (f j <= sum n f) by (apply IHn; [auto|lia]). specialize (H n). assert (0 <= f n) by auto. lra.
Qed.

Lemma sum_only n f j : (forall i, (i < n)%nat -> i <> j -> f i = 0) -> (j < n)%nat -> sum n f = f j.
Proof.
  induction n; intros H J; [lia|]; simpl.
  destruct (Nat.eq_dec j n) as [->|N].
  - rewrite (sum_ext n f (fun _ => 0)); [rewrite sum_zero; lra|]. intros; apply H; lia.
  - rewrite IHn, (H n); auto; try lia; lra.
Qed.

(* Largest of 0, f 0, ..., f (n - 1). *)
Fixpoint maxn (n : nat) (f : nat -> R) : R :=
  match n with O => 0 | S k => Rmax (maxn k f) (f k) end.

Lemma maxn_nonneg n f : 0 <= maxn n f.
Proof. induction n; simpl; [lra|]. eapply Rle_trans; [exact IHn|apply Rmax_l]. Qed.

Lemma maxn_ge n f i : (i < n)%nat -> f i <= maxn n f.
Proof.
  induction n; intro H; [lia|]; simpl.
  destruct (Nat.eq_dec i n) as [->|N]; [apply Rmax_r|].
  eapply Rle_trans; [apply IHn; lia|apply Rmax_l].
Qed.

Lemma maxn_le n f c : 0 <= c -> (forall i, (i < n)%nat -> f i <= c) -> maxn n f <= c.
Proof. induction n; intros C H; simpl; [easy|]. apply Rmax_lub; auto. Qed.

Definition vec := nat -> R.
Definition dot (d : nat) (x y : vec) : R := sum d (fun k => x k * y k).
Definition norm (d : nat) (x : vec) : R := sqrt (dot d x x).
Definition vminus (x y : vec) : vec := fun k => x k - y k.

Lemma dot_comm d x y : dot d x y = dot d y x.
Proof. apply sum_ext; intros; lra. Qed.

Lemma dot_ext d x x' y y' :
  (forall k, (k < d)%nat -> x k = x' k) -> (forall k, (k < d)%nat -> y k = y' k) -> dot d x y = dot d x' y'.
Proof. intros HX HY. apply sum_ext; intros. now rewrite HX, HY. Qed.

Lemma dot_linear d a x b y z :
  dot d (fun k => a * x k + b * y k) z = a * dot d x z + b * dot d y z.
Proof. unfold dot. rewrite <- !sum_scal, <- sum_plus. apply sum_ext; intros; lra. Qed.

Lemma dot_minus d x y z : dot d (vminus x y) z = dot d x z - dot d y z.
Proof. unfold dot, vminus. rewrite <- sum_minus. apply sum_ext; intros; lra. Qed.

Lemma dot_sum d n (c : nat -> R) (f : nat -> vec) z :
  dot d (fun k => sum n (fun i => c i * f i k)) z = sum n (fun i => c i * dot d (f i) z).
Proof.
  unfold dot.
  rewrite (sum_ext d _ (fun k => sum n (fun i => c i * (f i k * z k)))).
  - rewrite sum_swap. apply sum_ext; intros. now rewrite sum_scal.
  - intros k _. rewrite Rmult_comm, <- sum_scal. apply sum_ext; intros; lra.
Qed.

Lemma dot_square_nonneg d x : 0 <= dot d x x.
Proof. apply sum_nonneg; intros; nra. Qed.

Lemma dot_square_sum d x y :
  dot d (fun k => x k + y k) (fun k => x k + y k) = dot d x x + 2 * dot d x y + dot d y y.
Proof. unfold dot. rewrite <- sum_scal, <- !sum_plus. apply sum_ext; intros; lra. Qed.

Lemma cauchy_schwarz d x y : dot d x y * dot d x y <= dot d x x * dot d y y.
Proof.
  set (a := dot d x x). set (b := dot d y y). set (p := dot d x y).
  assert (Q : forall s t, 0 <= s * s * a + 2 * (s * t) * p + t * t * b).
  { intros s t. pose proof (dot_square_nonneg d (fun k => s * x k + t * y k)) as H.
    rewrite dot_linear, !(dot_comm d _ (fun k => s * x k + t * y k)), !dot_linear in H.
    rewrite (dot_comm d y x) in H. fold a b p in H. lra. }
  assert (A : 0 <= a) by apply dot_square_nonneg.
  assert (B : 0 <= b) by apply dot_square_nonneg.
  destruct (Rle_lt_or_eq_dec 0 b B) as [P|Z].
  - specialize (Q b (- p)). assert (0 <= b * (a * b - p * p)) by lra.
    assert (0 <= a * b - p * p) by (apply Rmult_le_reg_l with b; lra). lra.
  - rewrite <- Z in *. destruct (Req_dec p 0) as [E|N]; [rewrite E; lra|].
    specialize (Q p (- (a + 1) / 2)). nra.
Qed.

Lemma norm_nonneg d x : 0 <= norm d x.
Proof. apply sqrt_pos. Qed.

Lemma norm_square d x : norm d x * norm d x = dot d x x.
Proof. apply sqrt_sqrt, dot_square_nonneg. Qed.

Lemma dot_le_norms d x y : dot d x y <= norm d x * norm d y.
Proof.
  unfold norm. rewrite <- sqrt_mult by apply dot_square_nonneg.
  eapply Rle_trans; [apply Rle_abs|]. rewrite <- sqrt_Rsqr_abs.
  apply sqrt_le_1_alt. apply cauchy_schwarz.
Qed.

Lemma norm_triangle d x y : norm d (fun k => x k + y k) <= norm d x + norm d y.
Proof.
  pose proof (norm_nonneg d x). pose proof (norm_nonneg d y).
  apply Rsqr_incr_0_var; [|lra]. unfold Rsqr. rewrite norm_square, dot_square_sum.
  pose proof (dot_le_norms d x y). pose proof (norm_square d x). pose proof (norm_square d y). nra.
Qed.

Lemma norm_scal d a x : 0 <= a -> norm d (fun k => a * x k) = a * norm d x.
Proof.
  intro A. unfold norm.
  replace (dot d (fun k => a * x k) (fun k => a * x k)) with (a * a * dot d x x)
    by (unfold dot; rewrite <- sum_scal; apply sum_ext; intros; lra).
  rewrite sqrt_mult_alt, sqrt_square by nra. reflexivity.
Qed.

Lemma norm_ext d x y : (forall k, (k < d)%nat -> x k = y k) -> norm d x = norm d y.
Proof. intro H. unfold norm. f_equal. now apply dot_ext. Qed.

Lemma norm_sum d n (c : nat -> R) (f : nat -> vec) :
  (forall i, (i < n)%nat -> 0 <= c i) ->
  norm d (fun k => sum n (fun i => c i * f i k)) <= sum n (fun i => c i * norm d (f i)).
Proof.
  induction n; intro H; simpl.
  - unfold norm, dot. rewrite (sum_ext d _ (fun _ => 0)) by (intros; lra). rewrite sum_zero, sqrt_0; lra.
  - eapply Rle_trans; [apply norm_triangle|]. rewrite norm_scal by auto.
    apply Rplus_le_compat_r. apply IHn; auto.
Qed.
